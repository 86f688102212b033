// A terminal of the library `@xterm/headless`, driven by lines of JSON on stdin. Each line is answered.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const [, , folder, columns, rows] = process.argv;
const { Terminal } = createRequire(folder + "/")("@xterm/headless");
const terminal = new Terminal({
  cols: Number(columns), rows: Number(rows), scrollback: 200000, allowProposedApi: true,
});
let isCursorVisible = true;
for (const [final, visible] of [["h", true], ["l", false]]) {
  terminal.parser.registerCsiHandler({ prefix: "?", final }, (parameters) => {
    if (parameters.includes(25)) isCursorVisible = visible;
    return false;
  });
}

function joinedRows() {
  const buffer = terminal.buffer.active;
  const joined = [];
  for (let index = 0; index < buffer.length; index++) {
    const line = buffer.getLine(index);
    const next = buffer.getLine(index + 1);
    const text = line.translateToString(!next?.isWrapped);
    if (line.isWrapped && joined.length > 0) joined[joined.length - 1] += text;
    else joined.push(text);
  }
  return joined;
}

function answer(request) {
  if (request.resize) terminal.resize(request.resize[0], request.resize[1]);
  const { cursorX, cursorY } = terminal.buffer.active;
  return {
    rows: request.rows ? joinedRows() : [],
    cursor: [cursorY, cursorX, isCursorVisible ? 1 : 0],
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  await new Promise((done) => terminal.write(request.write ?? "", done));
  process.stdout.write(JSON.stringify(answer(request)) + "\n");
}
