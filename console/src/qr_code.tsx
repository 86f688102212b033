// QR codes of short texts, made here and drawn as SVG: bytes, error correction L, versions 1 to 10, mask 0.

/** Data codewords of each version, and the error correction codewords and blocks that it has. */
const SIZES = [[19, 7, 1], [34, 10, 1], [55, 15, 1], [80, 20, 1], [108, 26, 1], [136, 18, 2], [156, 20, 2], [194, 24, 2], [232, 30, 2], [274, 18, 4]] as const;
const BORDER = 4;

/** Rows of modules, true if dark; null if the text is too long. */
export function encodeQr(text: string): boolean[][] | null {
  const bytes = new TextEncoder().encode(text);
  const index = SIZES.findIndex(([data], at) => bytes.length <= data - (at < 9 ? 2 : 3));
  if (index < 0) return null;
  const version = index + 1;
  const [capacity, parity, blocks] = SIZES[index]!;
  const bits: number[] = [];
  const put = (value: number, length: number) => {
    for (let at = length - 1; at >= 0; at--) bits.push((value >> at) & 1);
  };
  put(4, 4);
  put(bytes.length, version < 10 ? 8 : 16);
  bytes.forEach((byte) => put(byte, 8));
  put(0, Math.min(4, capacity * 8 - bits.length));
  put(0, (8 - (bits.length % 8)) % 8);
  for (let pad = 0xec; bits.length < capacity * 8; pad ^= 0xec ^ 0x11) put(pad, 8);
  const data = Array.from({ length: capacity }, (_, at) => bits.slice(at * 8, at * 8 + 8).reduce((sum, bit) => sum * 2 + bit, 0));
  return draw(version, interleave(data, parity, blocks));
}

function multiply(one: number, other: number): number {
  let product = 0;
  for (let at = 7; at >= 0; at--) product = (product << 1) ^ ((product >> 7) * 0x11d) ^ (((other >> at) & 1) * one);
  return product;
}

/** The remainder by the generator polynomial of a degree. */
function remainder(data: number[], degree: number): number[] {
  const generator = new Array<number>(degree - 1).fill(0).concat(1);
  for (let root = 1, step = 0; step < degree; step++, root = multiply(root, 2)) {
    for (let at = 0; at < degree; at++) generator[at] = multiply(generator[at]!, root) ^ (generator[at + 1] ?? 0);
  }
  const rest = new Array<number>(degree).fill(0);
  for (const byte of data) {
    const factor = byte ^ rest.shift()!;
    rest.push(0);
    generator.forEach((coefficient, at) => (rest[at]! ^= multiply(coefficient, factor)));
  }
  return rest;
}

/** The blocks with their error correction, column by column; the last blocks may have a byte more. */
function interleave(data: number[], parity: number, count: number): number[] {
  const short = Math.floor(data.length / count);
  const long = data.length % count;
  const blocks: number[][] = [];
  for (let at = 0, start = 0; at < count; at++) {
    const end = start + short + (at >= count - long ? 1 : 0);
    blocks.push(data.slice(start, end));
    start = end;
  }
  const checks = blocks.map((block) => remainder(block, parity));
  const columns = (rows: number[][]) => Array.from({ length: Math.max(...rows.map((row) => row.length)) }, (_, at) => rows.flatMap((row) => (at < row.length ? [row[at]!] : []))).flat();
  return [...columns(blocks), ...columns(checks)];
}

function draw(version: number, codewords: number[]): boolean[][] {
  const size = version * 4 + 17;
  const dark = Array.from({ length: size }, () => new Array<boolean>(size).fill(false));
  const fixed = dark.map((row) => [...row]);
  const set = (x: number, y: number, isDark: boolean) => {
    if (x < 0 || y < 0 || x >= size || y >= size) return;
    dark[y]![x] = isDark;
    fixed[y]![x] = true;
  };
  const square = (centerX: number, centerY: number, radius: number, isDark: (distance: number) => boolean) => {
    for (let dy = -radius; dy <= radius; dy++) for (let dx = -radius; dx <= radius; dx++) set(centerX + dx, centerY + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
  };
  for (let at = 0; at < size; at++) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]] as const) square(x, y, 4, (distance) => distance !== 2 && distance !== 4);
  // Up to version 6 there is one alignment pattern, from 7 a grid of three.
  const centers = version === 1 ? [] : version < 7 ? [6, size - 7] : [6, (size - 1) / 2, size - 7];
  for (const x of centers) for (const y of centers) {
    const isFinder = (x === 6 && y === 6) || (x === 6 && y === size - 7) || (x === size - 7 && y === 6);
    if (!isFinder) square(x, y, 2, (distance) => distance !== 1);
  }
  // Level L and mask 0, with their check bits.
  const format = 0x77c4;
  for (let at = 0; at < 15; at++) {
    const bit = ((format >> at) & 1) === 1;
    if (at < 6) set(8, at, bit);
    else if (at < 8) set(8, at + 1, bit);
    else if (at === 8) set(7, 8, bit);
    else set(14 - at, 8, bit);
    if (at < 8) set(size - 1 - at, 8, bit);
    else set(8, size - 15 + at, bit);
  }
  set(8, size - 8, true);
  if (version >= 7) {
    let check = version;
    for (let at = 0; at < 12; at++) check = (check << 1) ^ ((check >> 11) * 0x1f25);
    const word = (version << 12) | check;
    for (let at = 0; at < 18; at++) {
      const bit = ((word >> at) & 1) === 1;
      const [far, near] = [size - 11 + (at % 3), Math.floor(at / 3)];
      set(far, near, bit);
      set(near, far, bit);
    }
  }
  let next = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++) {
      for (const x of [right, right - 1]) {
        const isUpward = ((right + 1) & 2) === 0;
        const y = isUpward ? size - 1 - step : step;
        if (fixed[y]![x]) continue;
        const bit = ((codewords[next >> 3] ?? 0) >> (7 - (next & 7))) & 1;
        dark[y]![x] = (bit === 1) !== ((x + y) % 2 === 0);
        next++;
      }
    }
  }
  return dark;
}

export function QrCode({ text, label }: { text: string; label: string }) {
  const rows = encodeQr(text);
  if (!rows) return null;
  const size = rows.length + 2 * BORDER;
  const path = rows.flatMap((row, y) => row.flatMap((isDark, x) => (isDark ? [`M${x + BORDER} ${y + BORDER}h1v1h-1z`] : []))).join("");
  return <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges"><rect width={size} height={size} fill="#fff" /><path d={path} fill="#000" /></svg>;
}
