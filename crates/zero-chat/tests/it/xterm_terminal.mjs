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
    if (!line.isWrapped || joined.length === 0) joined.push([]);
    const spans = joined[joined.length - 1];
    const next = buffer.getLine(index + 1);
    for (let column = 0; column < line.length; column++) {
      const cell = line.getCell(column);
      if (cell.getWidth() === 0) continue;
      // There was no room for the wide letter that is in the next row.
      if (next?.isWrapped && column === line.length - 1 && cell.getCode() === 0) continue;
      const style = styleOf(cell);
      const last = spans[spans.length - 1];
      const letter = cell.getChars() || " ";
      if (last && last.key === String(style)) last.text += letter;
      else spans.push({ text: letter, key: String(style), style });
    }
  }
  return joined.map((spans) => spans.map(({ text, style }) => [text, ...style]));
}

function styleOf(cell) {
  const marks = [cell.isBold(), cell.isDim(), cell.isItalic(), cell.isUnderline()].map(Boolean);
  const color = (isDefault, isExact, value) => (isDefault ? -1 : isExact ? 256 + value : value);
  return [marks, Boolean(cell.isInverse()), [
    color(cell.isFgDefault(), cell.isFgRGB(), cell.getFgColor()),
    color(cell.isBgDefault(), cell.isBgRGB(), cell.getBgColor()),
  ]];
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
