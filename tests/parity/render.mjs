// Renders histories with node-llama-cpp's TemplateChatWrapper.
// node render.mjs PACKAGE_FOLDER CASES_FILE: [{"options", "history"}, ...] in, [{"text", "stops"}, ...] out
import fs from "node:fs";
import path from "node:path";
import {pathToFileURL} from "node:url";

const file = path.join(process.argv[2], "dist/chatWrappers/generic/TemplateChatWrapper.js");
const {TemplateChatWrapper} = await import(pathToFileURL(file));

const rendered = JSON.parse(fs.readFileSync(process.argv[3], "utf8")).map(({options, history}) => {
    const state = new TemplateChatWrapper(options).generateContextState({chatHistory: history});
    return {
        text: state.contextText.toJSON(),
        stops: state.stopGenerationTriggers.map((trigger) => trigger.toJSON())
    };
});
process.stdout.write(JSON.stringify(rendered));
