r"""The regexes that cut a text into words, by kind of pre-tokenizer; see `chatwrap.tokens.pretokenizers`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_SHORT: Final = r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_SHORT_LOWER: Final = r"'(?:[stmd]|re|ve|ll)"
_WORD: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHERS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_LINES: Final = r"\s*[\r\n]+"
_SPACE: Final = r"\s+(?!\S)|\s+"
_NO_TRIPLE: Final = r"(?:(?![0-9]{3})\p{N})+"
_GROUPS_FROM_THE_RIGHT: Final = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"


def _alternatives(easy: Iterable[str], *others: str) -> str:
    """A regex of alternatives that an automaton matches, fast as one group, and of those that look around.

    The two may change places, since none of `easy` starts with what one of `others` starts with, but
    for white space, which is last.
    """
    return "|".join((f"(?:{'|'.join(filter(None, easy))})", *filter(None, others)))


def _before(border: str) -> str:
    r"""White space, of which a run in front of a border is whole."""
    return rf"\s+(?={border})|{_SPACE}"


def _gpt_2(*, number: str, space: str) -> str:
    return _alternatives((_SHORT_LOWER, r" ?\p{L}+", number, r" ?[^\s\p{L}\p{N}]+"), space)


def _modern(
    *,
    short: str = _SHORT,
    word: str = _WORD,
    number: str = r"\p{N}",
    others: str = _OTHERS,
    lines: str = _LINES,
    space: str = _SPACE,
) -> str:
    """The form that GPT-4's pre-tokenizer began: contractions, words, numbers, others, lines, space."""
    looks_around = "(?" in number
    easy = (short, word, "" if looks_around else number, others, lines)
    return _alternatives(easy, number if looks_around else "", space)


def _cased(letters: str, *, short: str = "") -> str:
    """Words of the form Xxx and XXX; only ASCII letters are known to be of the other case."""
    upper, lower = f"[{letters}--[a-z]]", f"[{letters}--[A-Z]]"
    start, end = r"[^\r\n\p{L}\p{N}]?", f"(?:{short})?" if short else ""
    return rf"{start}{upper}*{lower}+{end}|{start}{upper}+{lower}*{end}"


_SIGNS: Final = r"\p{P}$+<=>\^~|"


def _punctuated(signs: str, *, number: str) -> str:
    """Runs of `signs` first, then GPT-2's words, then numbers cut."""
    others = rf" ?[^\s\p{{L}}\p{{N}}{signs}]+"
    return _alternatives((f"[{signs}]+", r" ?\p{L}+", others), number, _before(f"[{signs}]"))


_CJK: Final = r"[\u4e00-\u9fa5\u3040-\u30ff]"


def _chinese(cjk: str, *, number: str, signs_end: str = r"[\r\n]*", lines: str = _LINES) -> str:
    """Numbers, then runs of `cjk`, then words with marks and signs; DeepSeek V3 began it.

    A character of no kind goes with the word behind it, else with others of no kind. Where numbers are
    grouped from the right, llama.cpp cuts behind each group alone and not in front of the first.
    """
    word, sign, kinds = r"\p{L}\p{M}", r"\p{P}\p{S}", r"\s\p{L}\p{M}\p{N}\p{P}\p{S}"
    none, looks_around = rf"[[^{kinds}]--{cjk}]", "(?" in number
    easy = (
        "" if looks_around else number,
        rf"[{cjk}--[{kinds}]]?[{cjk}&&[{word}]]+",
        rf"[{cjk}&&[{sign}]]+",
        rf"[{cjk}--[{kinds}]]+",
        r"[!-/:-@\[-`{-~][A-Za-z]+",
        rf"[[^\r\n\p{{L}}\p{{N}}{sign}]--{cjk}]?[[{word}]--{cjk}]+",
        rf" ?[[{sign}]--{cjk}]+{signs_end}",
        lines,
    )
    gap = rf"{none}(?:{none}(?![[{word}]--{cjk}]))*"
    if looks_around:
        return _alternatives(easy, number, f"{gap}(?:{number})?", _before(cjk))
    return _alternatives(easy, gap, _before(rf"[\p{{N}}{cjk}]"))


_BLOOM_SIGNS: Final = r"(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)"
_BLOOM_GAP: Final = rf"(?:(?! [^{_BLOOM_SIGNS}])[{_BLOOM_SIGNS}])+"

_FAR: Final = r"[\u0800-\u9fa5\uac00-\ud7ff--\s]"


def _kinds(*kinds: str) -> tuple[list[str], list[str]]:
    """Runs of each kind with a space in front, which `_FAR` characters are then cut out of.

    Returns what an automaton matches, and what looks around: the spaces before a `_FAR` run.
    """
    near = [rf"\s?[{kind}--{_FAR}]+" for kind in kinds]
    far = [rf"[{kind}&&{_FAR}]" for kind in kinds]
    return [*near, *(f"{kind}+" for kind in far)], [rf"\s(?={kind})" for kind in far]


def _deepseek_coder() -> str:
    """Line ends; letters and then signs, each with a space in front; `_FAR` runs; digits."""
    easy, spaces = _kinds(r"\p{L}", r"\p{P}")
    own = r"[\p{L}\p{P}]"
    gap = rf"(?:(?!\s{own})[[^\r\n\p{{L}}\p{{P}}\p{{N}}]--{_FAR}])+"
    far = (rf"[[{_FAR}--\p{{N}}]--{own}]+", r"\p{N}")
    return _alternatives((r"[\r\n]", *easy, *far), *spaces, gap)


_CASED: Final = (
    r"A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    r"\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
    r"\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
    r"\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
    r"\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe"
    r"\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    r"\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    r"\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    r"\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    r"\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    r"\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    r"\U0001e900-\U0001e943"
)
_QUOTED: Final = r"[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002--\s]"


def _deepseek_llm() -> str:
    """Line ends; `_CASED` and `_QUOTED` runs, each with a space in front; trailing space; `_FAR`; numbers.

    The quoted set holds ASCII letters, so a word is cut where those meet others: ``h|é|llo``.
    """
    cased, quoted, space = f"[{_CASED}]", _QUOTED, r"[^\S\r\n]"
    easy, spaces = _kinds(f"{cased}&&{quoted}", f"{cased}--{quoted}", f"{quoted}--{cased}")
    own = f"[{cased}{quoted}]"
    far = (rf"[[{_FAR}--\p{{N}}]--{own}]+", rf"[[{_FAR}&&\p{{N}}]--{own}]+", rf"[\p{{N}}--{_FAR}]+")
    trailing = rf"{space}+(?={space}{own})|{space}+(?![^\r\n])"
    gap = rf"(?:(?!{space}+(?:[{cased}{quoted}\r\n]|\z))[^{cased}{quoted}{_FAR}\p{{N}}\r\n])+"
    return _alternatives((r"[\r\n]", *easy, *far), *spaces, trailing, gap)


_HANGUL: Final = r"\uac00-\ud7a3\u3131-\u318e"
_BOPOMOFO: Final = r"\u3105-\u312f"
_WIDE_SIGNS: Final = (
    r"\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f--\s"
)


def _youtu() -> str:
    """Runs of Hangul, of wide signs, of Bopomofo and of Chinese and kana; then words with marks."""
    word, none = r"\p{L}\p{M}", r"\p{L}\p{N}"
    parts = []
    for kind in (f"[{_HANGUL}]", f"[{_WIDE_SIGNS}]", f"[{_BOPOMOFO}]", _CJK):
        inner = rf"[{kind}--[{none}]]"
        parts += [rf"{inner}?[{kind}&&[{word}]]+", rf"[{kind}&&\p{{N}}]", rf"{inner}+"]
    special = f"[[{_HANGUL}][{_WIDE_SIGNS}][{_BOPOMOFO}]{_CJK}]"
    parts += [
        rf"[[^\r\n{none}]--{special}]?[[{word}]--{special}]+(?:{_SHORT})?",
        rf"[\p{{N}}--{special}]",
        rf" ?[[^\s{none}]--{special}]+[\r\n/]*",
        _LINES,
    ]
    return _alternatives(parts, _before(special))


_HAN: Final = (
    r"\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002ebef"
    r"\uf900-\ufaff\U0002f800-\U0002fa1f"
)
_SOUTH_EAST: Final = (
    r"\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0eff"
    r"\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff"
)
_IMAGE: Final = "IMGIMG[A-I]{1,4}Z"
_ASCII_SIGNS: Final = r"\p{P}!-/:-@\[-`{-~"


def _chameleon() -> str:
    """Image names, tabs, line ends and pairs of spaces, digits and signs one by one; then GPT-2's words."""
    space, border = r"(?:[^\S\t\n ]| (?! ))", rf"(?:[\t\n]|  |\p{{N}}|[{_ASCII_SIGNS}]|{_IMAGE})"
    others = rf" ?[^\s\p{{L}}\p{{N}}{_ASCII_SIGNS}]+"
    easy = (_IMAGE, r"[\t\n]|    |  ", r"\p{N}", f"[{_ASCII_SIGNS}]", others)
    letters = rf" (?={_IMAGE})| ?(?:(?!{_IMAGE})\p{{L}})+"
    return _alternatives(easy, letters, rf"{space}+(?={border})|{space}+(?!\S)|{space}")


def _laguna() -> str:
    """Runs of newlines and what stands between them first, then Qwen 2's words."""
    space = r"[^\S\n]"
    easy = (_SHORT, _WORD, r"\p{N}", r" ?[^\s\p{L}\p{N}]+\r*", rf"{space}*\r+", r"\n+")
    return _alternatives(easy, rf"{space}+(?!\S)|{space}+")


_SLASHED: Final = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
_HALVING_SPACE: Final = "|".join(rf"\s{{{2**power}}}(?!\S)" for power in range(9, 1, -1))

PATTERNS: Final[Mapping[str, str]] = {
    "gpt-2": _gpt_2(number=r" ?\p{N}+", space=_SPACE),
    "digits": _gpt_2(number=r"\p{N}", space=_before(r"\p{N}")),
    "default": _punctuated(_SIGNS, number=rf" (?=\p{{N}})|[0-9]{{3}}|{_NO_TRIPLE}"),
    "falcon": _punctuated(_SIGNS + "`", number=rf" (?=[0-9]{{3}})|[0-9]{{3}}| ?{_NO_TRIPLE}"),
    "llama-3": _modern(number=r"\p{N}{1,3}"),
    "jais-2": _modern(number=r"\p{N}{1,3}", space=rf"{_HALVING_SPACE}|\s{{1,2}}(?!\S)|\s"),
    "qwen-2": _modern(),
    "qwen-3.5": _modern(word=r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+", others=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"),
    "no-contractions": _modern(short=""),
    "bailing": _modern(lines=r"\s*[\r\n]"),
    "seed-coder": _modern(others=r" ?[^\s\p{L}\p{N}\r\n]+"),
    "exaone-moe": _modern(
        word=r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
        others=r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
        lines=r"\s*[\r\n]",
    ),
    "minicpm-5": _modern(number=r"\p{N}{1,3}", space=_before(r"\p{N}")),
    "laguna": _laguna(),
    "tekken": _modern(short="", word=_cased(r"\p{L}"), others=_SLASHED),
    "gpt-4o": _modern(short="", word=_cased(r"\p{L}", short=_SHORT), number=r"\p{N}{1,3}", others=_SLASHED),
    "granite-embedding": _modern(
        short="",
        word=_cased(r"[\p{L}\p{M}]", short=_SHORT),
        number=r"\p{N}{1,3}",
        others=_SLASHED,
    ),
    "tiny-aya": _modern(
        short="",
        word=rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+(?:{_SHORT})?",
        number=_GROUPS_FROM_THE_RIGHT,
        others=_SLASHED,
    ),
    "kimi-k2": _modern(
        short=f"[{_HAN}]+",
        word=rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}--[{_HAN}]]+(?:{_SHORT})?",
        number=r"\p{N}{1,3}",
    ),
    "bloom": rf" ?[^{_BLOOM_SIGNS}]+|{_BLOOM_GAP}",
    "viking": rf"\p{{N}}| (?=\p{{N}})| ?[^{_BLOOM_SIGNS}\p{{N}}]+|{_BLOOM_GAP}",
    "superbpe": r"[^\p{N}]+|\p{N}(?:(?!(?:[0-9]{3})+(?![0-9]))\p{N})*",
    "deepseek-llm": _deepseek_llm(),
    "deepseek-coder": _deepseek_coder(),
    "deepseek-v3": _chinese(_CJK, number=r"\p{N}{1,3}"),
    "spark": _chinese(_CJK, number=r"\p{N}", signs_end="", lines=r"[\r\n]"),
    "afmoe": _chinese(f"[{_SOUTH_EAST}]", number=_GROUPS_FROM_THE_RIGHT),
    "youtu": _youtu(),
    "chameleon": _chameleon(),
    "lines": r"[^\n]+|\n+",
}
"""Regexes by kind. Categories are of any Unicode version here; `pre_tokenizer` pins it."""
