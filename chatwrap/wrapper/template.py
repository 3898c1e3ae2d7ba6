"""`TemplateChatWrapper`: a chat format in a few template strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any, Self

from chatwrap.chat.syntax import default_functions
from chatwrap.errors import TemplateError
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.framed import Clock, FramedChatWrapper
from chatwrap.wrapper.notations import read_notation, with_notation
from chatwrap.wrapper.opening import read_documentation, read_opening, texts_of
from chatwrap.wrapper.prefixes import Prefixes
from chatwrap.wrapper.reader import TemplateReader
from chatwrap.wrapper.revision import EMPTY_THOUGHTS, KEPT_THOUGHTS, Revision
from chatwrap.wrapper.sections import read_sections


class TemplateChatWrapper(FramedChatWrapper):
    r"""A chat format given by template strings, whose slots are ``{{name}}`` or ``<<name>>``.

    `template` frames the whole: ``{{systemPrompt}}`` (optional) is where the first system message
    goes, ``{{history}}`` the other messages, ``{{completion}}`` what the model writes. The text after
    the completion ends the model's turn, so it is mandatory; the text before it is the generation
    prompt. `history_template` frames the messages of each role (``system``, ``user``, ``model``); an
    optional ``system_and_user`` frames a system message together with the user message behind it, for
    formats that have no system turn. `function_call_message_template` has a ``call`` and a
    ``result``; `segments` has ``thought_template``, ``comment_template``,
    ``reopen_thought_after_function_calls``, ``close_all_segments_template`` and
    ``reiterate_stack_after_function_calls``; and for formats whose model writes each part of its turn as
    a message of its own, ``text_template`` and what stands ``between_parts``.

    Neighbouring messages of one role are joined with a blank line unless
    `join_adjacent_messages_of_the_same_type` is off. A message without any text leaves no trace.

    What formats need beyond that:

    - `opening`: how the conversation opens, for each of the cases ``plain``, ``system``, ``functions``
      and ``system_and_functions``; a case that isn't given is written with the frames above. The slots
      are ``{{systemPrompt}}``, ``{{functions}}`` (their documentation), ``{{date}}`` (today's, written as
      `date_format` says), and ``{{message}}`` for an opening that stands in the frame of a user message:
      of the first one, or of the last one if ``at`` is ``last_user`` (by default ``start``).
    - `function_documentation`: a ``template`` with ``{{functions}}``; their ``form`` (``json_lines``,
      ``json_array``, ``bare_json_lines``: without OpenAI's wrapping, ``typescript``), what stands between
      two of them (``separator``), and the ``indent`` of the JSON.
    - `function_call_arguments`: how arguments are written. ``form`` is ``json``; ``tagged`` with a
      ``prefix`` (in which ``{{parameterName}}`` stands, and ``{{isString}}`` where needed), a ``suffix``, a
      text ``between`` arguments and ``literals`` (``json``, ``python``, ``python_containers``);
      ``keywords`` with a text ``between`` and ``mappings`` (``python``, ``json``); or ``bare_keys`` with a
      ``quote``, ``sorts_keys`` and ``null``. Calls without arguments write ``{}`` if ``absent`` is
      ``empty_object``.
      ``{{callId}}`` and ``{{callIndex}}`` in calls and results number the conversation's calls from 0.
    - `function_call_sections`: the texts around calls made together and around their results
      (``calls_prefix``, ``between_calls``, ``calls_suffix``, and the same for ``results``), and
      ``text_before_calls``, written between a text and the calls behind it. ``result_form`` ``text``
      writes strings as they are, ``trimmed_text`` without white space around them, ``quoted_text`` the
      text of any result as a JSON string, and ``json`` (by default) any result as JSON. ``results`` tells
      whether they stand ``in_turn``, in ``own_turns`` after which the model's turn is opened again, or in
      ``own_turns_unopened`` after which it goes on as it is. ``one_by_one``: each call's result comes
      before the next call.
    - `trim_messages`: no white space around messages, or around those of the roles given.
      `trim_thoughts`: none around thoughts. `hoist_system_messages`: all of them in one, at the front.
    - `kept_thoughts`: ``all`` (by default), those ``after_last_user``, of these only those
      ``before_calls``, those ``before_open_calls`` that no answer has followed, or ``none``.
      `empty_thoughts`: turns of the model without a thought begin with an empty one: ``none`` of them,
      the ``last`` if it is an answer, those ``after_last_user``, or ``all``.
    - `stop_texts`: what else ends the model's turn. `ends_at_eos`: nothing need stand behind
      ``{{completion}}``, since the model ends its turn with EOS alone.

    Raises `TemplateError` with every fault of every string.

    >>> wrapper = TemplateChatWrapper(
    ...     template="{{systemPrompt}}\n{{history}}model: {{completion}}\nuser: ",
    ...     history_template={
    ...         "system": "system: {{message}}\n",
    ...         "user": "user: {{message}}\n",
    ...         "model": "model: {{message}}\n",
    ...     },
    ... )
    >>> history = [{"type": "system", "text": "Be kind."}, {"type": "user", "text": "Hi"}]
    >>> str(wrapper.generate_context_state(history).context_text)
    'Be kind.\nuser: Hi\nmodel: '
    """

    wrapper_name = "Template"

    def __init__(
        self,
        template: str,
        history_template: Mapping[str, str],
        *,
        function_call_message_template: Mapping[str, str] | None = None,
        function_call_arguments: Mapping[str, Any] | None = None,
        join_adjacent_messages_of_the_same_type: bool = True,
        segments: Mapping[str, Any] | None = None,
        opening: Mapping[str, str] | None = None,
        function_documentation: Mapping[str, Any] | None = None,
        function_call_sections: Mapping[str, str] | None = None,
        trim_messages: bool | Sequence[str] = False,
        trim_thoughts: bool = False,
        hoist_system_messages: bool = False,
        kept_thoughts: str = "all",
        empty_thoughts: str = "none",
        stop_texts: Sequence[str] = (),
        ends_at_eos: bool = False,
        date_format: str = "%Y-%m-%d",
        clock: Clock = datetime.now,
    ) -> None:
        reader = TemplateReader()
        self._frame = reader.frame(template, ends_at_eos=reader.flag(ends_at_eos, "ends_at_eos"))
        self._history = reader.history(history_template)
        functions = reader.functions(
            function_call_message_template, are_framed=function_call_sections is not None
        )
        notation = read_notation(function_call_arguments, reader)
        functions = with_notation(functions, notation) if functions else default_functions()
        read_segments = reader.segments(segments)
        joins = reader.flag(
            join_adjacent_messages_of_the_same_type, "join_adjacent_messages_of_the_same_type"
        )
        self._opening_texts = read_opening(opening, reader)
        self._documentation = read_documentation(function_documentation, reader)
        self._sections = read_sections(function_call_sections, reader)
        self._revision = Revision(
            trimmed_roles=reader.roles(trim_messages, "trim_messages"),
            trims_thoughts=reader.flag(trim_thoughts, "trim_thoughts"),
            hoists_system=reader.flag(hoist_system_messages, "hoist_system_messages"),
            kept_thoughts=reader.choice(kept_thoughts, KEPT_THOUGHTS, "kept_thoughts"),
            writes_thoughts=read_segments.thought is not None,
        )
        self._empty_thoughts = reader.choice(empty_thoughts, EMPTY_THOUGHTS, "empty_thoughts")
        self._stop_texts = reader.texts(stop_texts, "stop_texts")
        self._date_format = reader.text(date_format, "date_format")
        if reader.faults:
            raise TemplateError(reader.faults)
        self.template = template
        self.history_template = MappingProxyType(dict(history_template))
        self.join_adjacent_messages_of_the_same_type = joins
        self.clock = clock
        self._prefixes = Prefixes()
        self.settings = replace(
            ChatWrapper.default_settings,
            functions=self._sections.applied_to(functions),
            segments=read_segments,
        )

    @property
    def control_texts(self) -> frozenset[str]:
        frames = chain(self._frame.texts, *(text.texts for text in self._history.values()))
        others = chain(self._opening_texts.texts, texts_of(self._documentation), self._stop_texts)
        before_calls = map(str, self._sections.text_before_calls.values)
        return super().control_texts | frozenset(filter(None, chain(frames, others, before_calls)))

    def with_clock(self, clock: Clock) -> Self:
        """This format with another clock for the date in its opening."""
        other = copy(self)
        other.clock, other._prefixes = clock, Prefixes()
        return other
