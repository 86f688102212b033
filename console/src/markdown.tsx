// Markdown as nodes, never as HTML. What it does not know stays text. Links go only to the web and by
// mail, are marked, and tell the other side nothing; images are shown only if they are data.

import { reveal, revealOrder } from "./format.ts";
import { Component, type ComponentChildren, type VNode } from "preact";

const NESTING_MAX = 8;
/** Longest block in which marks are looked for; a longer one stays text. */
const MARKED_CHARS_MAX = 20_000;
// Every repetition is bounded: text of a model must not keep the page busy.
const INLINE = /(`{1,8})([\s\S]{1,2000}?)\1(?!`)|!\[([^\]]{0,500})\]\(([^)\s]{0,2000})[^)]{0,500}\)|\[([^\]]{1,500})\]\(<?([^)\s>]{1,2000})>?(?:\s{1,8}"[^"]{0,500}")?\)|(\*\*|(?<!\w)__(?!\w{1,200}__(?!_)))(?=\S)([\s\S]{1,2000}?\S?)\7(?!(?<=_)\w)|~~(?=\S)([\s\S]{1,2000}?)~~|(?<![\w*_])([*_])(?=\S)([^*_\n]{1,2000}?)\10(?!\w)|(https?:\/\/[^\s<>"')\]]{1,2000})/g;

export function safeUrl(written: string): string | null {
  try {
    const url = new URL(written);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function safeImage(mime: string, data: string): string | null {
  const known = /^image\/(png|jpeg|gif|webp|avif)$/.test(mime);
  return known && /^[A-Za-z0-9+/=\s]*$/.test(data) ? `data:${mime};base64,${data}` : null;
}

export function Link({ to, children }: { to: string; children: ComponentChildren }) {
  const url = safeUrl(to);
  if (!url) return <>{children}</>;
  return (
    <a href={url} class="away" target="_blank" rel="noopener noreferrer nofollow" referrerpolicy="no-referrer" title={url}>
      {children}
    </a>
  );
}

function inline(text: string, depth = 0): ComponentChildren {
  if (depth > NESTING_MAX || text.length > MARKED_CHARS_MAX) return text;
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, , code, alt, , words, to, , bold, struck, , soft, plain] = found;
    if (found.index > end) parts.push(text.slice(end, found.index));
    end = found.index + all.length;
    if (code !== undefined) parts.push(<code>{reveal(code.trim() || code)}</code>);
    else if (alt !== undefined) parts.push(<span class="muted">[image{alt ? `: ${alt}` : ""}]</span>);
    else if (to !== undefined) parts.push(<Link to={to}>{inline(words ?? to, depth + 1)}</Link>);
    else if (bold !== undefined) parts.push(<strong>{inline(bold, depth + 1)}</strong>);
    else if (struck !== undefined) parts.push(<s>{inline(struck, depth + 1)}</s>);
    else if (soft !== undefined) parts.push(<em>{inline(soft, depth + 1)}</em>);
    else if (plain !== undefined) parts.push(<Link to={plain}>{plain}</Link>);
  }
  if (end < text.length) parts.push(text.slice(end));
  return parts;
}

/** A line of zero's own, in which backticks mark values. */
export function Words({ text }: { text: string }) {
  return <>{reveal(text).split(/(`[^`]+`)/).map((part) => (part.length > 2 && part.startsWith("`") && part.endsWith("`") ? <code>{part.slice(1, -1)}</code> : part))}</>;
}

/** Splits text into blocks; all but the last stay as they are while text is added. */
export function splitBlocks(text: string): string[] {
  const blocks: string[] = [];
  let block: string[] = [];
  let fence = "";
  const finish = () => {
    if (block.length) blocks.push(block.join("\n"));
    block = [];
  };
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (fence) {
      block.push(line);
      if (mark?.startsWith(fence)) {
        fence = "";
        finish();
      }
    } else if (mark) {
      finish();
      fence = mark;
      block.push(line);
    } else if (!line.trim()) {
      // A blank line ends a block, but not a list whose next line is indented.
      finish();
    } else if (/^#{1,6} /.test(line)) {
      finish();
      blocks.push(line);
    } else {
      block.push(line);
    }
  }
  finish();
  return blocks;
}

const LIST = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

function renderBlock(text: string, depth = 0): VNode {
  const lines = text.split("\n");
  const first = lines[0] ?? "";
  const fence = /^ {0,3}(`{3,}|~{3,})\s*(\S*)/.exec(first);
  if (fence) {
    const closed = lines.length > 1 && /^ {0,3}(`{3,}|~{3,})\s*$/.test(lines[lines.length - 1] ?? "");
    const body = lines.slice(1, closed ? -1 : undefined).join("\n");
    return <pre class="code" tabIndex={0}><code>{reveal(body)}</code></pre>;
  }
  const heading = /^(#{1,6}) (.*)$/.exec(first);
  if (heading) return <p class={`heading h${heading[1]!.length}`}>{inline(heading[2]!.replace(/\s#{1,6}$/, ""))}</p>;
  if (/^ {0,3}([-*_])( *\1){2,}\s*$/.test(first)) return <hr />;
  if (/^ {0,3}>/.test(first) && depth < NESTING_MAX) {
    const inner = lines.map((line) => line.replace(/^ {0,3}> ?/, "")).join("\n");
    return <blockquote>{splitBlocks(inner).map((part) => renderBlock(part, depth + 1))}</blockquote>;
  }
  if (LIST.test(first) && depth < NESTING_MAX) return renderList(lines, depth);
  if (lines.length > 1 && first.includes("|") && /^[\s|:-]+$/.test(lines[1] ?? "") && lines[1]!.includes("-")) {
    const cells = (line: string) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
    return (
      <div class="scroll" tabIndex={0}><table>
        <thead><tr>{cells(first).map((cell) => <th>{inline(cell)}</th>)}</tr></thead>
        <tbody>{lines.slice(2).map((line) => <tr>{cells(line).map((cell) => <td>{inline(cell)}</td>)}</tr>)}</tbody>
      </table></div>
    );
  }
  return <p>{inline(lines.join("\n"))}</p>;
}

function renderList(lines: string[], depth: number): VNode {
  const indent = LIST.exec(lines[0] ?? "")?.[1]?.length ?? 0;
  const items: string[][] = [];
  for (const line of lines) {
    const found = LIST.exec(line);
    if (found && (found[1]?.length ?? 0) <= indent) items.push([found[3] ?? ""]);
    else items[items.length - 1]?.push(line);
  }
  const content = items.map((item) => {
    const nested = item.findIndex((line, at) => at > 0 && LIST.test(line));
    const own = nested < 0 ? item : item.slice(0, nested);
    const task = /^\[([ xX])\] /.exec(own[0] ?? "");
    const words = own.map((line) => line.trim()).join("\n").slice(task ? 4 : 0);
    return (
      <li class={task ? "task" : undefined}>
        {task ? (task[1] === " " ? "☐ " : "☑ ") : null}{inline(words)}
        {nested < 0 ? null : depth < NESTING_MAX ? renderList(item.slice(nested), depth + 1) : <pre class="code"><code>{item.slice(nested).join("\n")}</code></pre>}
      </li>
    );
  });
  return /^\s*\d/.test(lines[0] ?? "") ? <ol>{content}</ol> : <ul>{content}</ul>;
}

class Block extends Component<{ text: string }> {
  override shouldComponentUpdate(next: { text: string }) {
    return next.text !== this.props.text;
  }
  override render() {
    return renderBlock(revealOrder(this.props.text));
  }
}

export function Markdown({ text }: { text: string }) {
  return <div class="markdown">{splitBlocks(text).map((block, at) => <Block key={at} text={block} />)}</div>;
}
