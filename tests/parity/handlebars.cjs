// Renders templates with handlebars.js, set up as Dotprompt sets it up.
// node handlebars.cjs PACKAGE_FOLDER CASES_FILE: [{"t", "ctx", "data", "partials"}, ...] in, [{"ok"} or {"err"}, ...] out
"use strict";
const fs = require("node:fs");
const Handlebars = require(process.argv[2]);

const helpers = {
    loud: (value) => String(value).toUpperCase() + "!",
    pair: ({hash}) => `${hash.a}+${hash.b}`,
    time: () => "NOON",
    box(options) {
        return `<${options.fn(this)}|${options.inverse(this)}>`;
    },
    repeat(items, options) {
        return items.map((item) => options.fn(item, {blockParams: [item]})).join(",");
    },
    ifEquals(left, right, options) {
        return left === right ? options.fn(this) : options.inverse(this);
    },
    unlessEquals(left, right, options) {
        return left !== right ? options.fn(this) : options.inverse(this);
    },
    json: (value, {hash}) => JSON.stringify(value, null, hash.indent || 0)
};
const knownHelpers = Object.fromEntries(Object.keys(helpers).map((name) => [name, true]));

const rendered = JSON.parse(fs.readFileSync(process.argv[3], "utf8")).map(({t, ctx, data, partials}) => {
    const environment = Handlebars.create();
    environment.registerHelper(helpers);
    environment.registerPartial(partials);
    try {
        const template = environment.compile(t, {knownHelpers, knownHelpersOnly: true, noEscape: true});
        return {ok: template(ctx, {data})};
    } catch (error) {
        return {err: String(error.message)};
    }
});
process.stdout.write(JSON.stringify(rendered));
