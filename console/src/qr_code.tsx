// A QR code that the gateway encoded, drawn as SVG.

const BORDER = 4;

/** Rows of modules, `1` if dark. Without rows there is nothing to draw. */
export function QrCode({ rows, label }: { rows: readonly string[]; label: string }) {
  if (!rows.length) return null;
  const size = rows.length + 2 * BORDER;
  const path = rows.flatMap((row, y) => [...row].flatMap((digit, x) => (digit === "1" ? [`M${x + BORDER} ${y + BORDER}h1v1h-1z`] : []))).join("");
  return <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges"><rect width={size} height={size} fill="#fff" /><path d={path} fill="#000" /></svg>;
}
