// Makes src/wire.ts of the gateway's own schema, which a test of zero-wire keeps equal to the code.
// With --check, only tells whether the file is what the schema gives.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const SNAPSHOT =
  "../../crates/zero-wire/src/snapshots/zero_wire__schema__tests__protocol_schema_is_valid_and_unchanged.snap";
const TARGET = at("../src/wire.ts");

const snapshot = readFileSync(at(SNAPSHOT), "utf8");
const schema = JSON.parse(snapshot.slice(snapshot.indexOf("\n{") + 1));

const quoted = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));
const nameOf = (reference) => reference.slice(reference.lastIndexOf("/") + 1);

function typeOf(part) {
  if (part === true || part === undefined) return "unknown";
  if (part === false) return "never";
  if (part.$ref) {
    const own = Object.keys(part).some((key) => key === "properties");
    return own ? `${nameOf(part.$ref)} & ${objectType(part)}` : nameOf(part.$ref);
  }
  if ("const" in part) return JSON.stringify(part.const);
  if (part.enum) return part.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = part.oneOf ?? part.anyOf;
  if (choices) {
    const union = [...new Set(choices.map(typeOf))].join(" | ");
    return part.properties ? `${objectType(part)} & (${union})` : union;
  }
  if (part.allOf) return part.allOf.map(typeOf).join(" & ");
  if (Array.isArray(part.type)) {
    return part.type.map((type) => typeOf({ ...part, type })).join(" | ");
  }
  switch (part.type) {
    case "string": return "string";
    case "integer":
    case "number": return "number";
    case "boolean": return "boolean";
    case "null": return "null";
    case "array": return `Array<${typeOf(part.items)}>`;
    case "object": return objectType(part);
    default: return "unknown";
  }
}

function objectType(part) {
  const required = new Set(part.required ?? []);
  const fields = Object.entries(part.properties ?? {}).map(
    ([name, value]) => `${quoted(name)}${required.has(name) ? "" : "?"}: ${typeOf(value)};`,
  );
  if (fields.length === 0) {
    return part.additionalProperties === false ? "Record<string, never>" : "Record<string, unknown>";
  }
  return `{ ${fields.join(" ")} }`;
}

const lines = [
  "// Made by scripts/generate-types.mjs of the gateway's schema. Do not edit.",
  "",
];
for (const [name, part] of Object.entries(schema.$defs)) {
  lines.push(`export type ${name} = ${typeOf(part)};`);
}
lines.push("", "export interface Methods {");
for (const [name, method] of Object.entries(schema.methods)) {
  lines.push(
    `  ${JSON.stringify(name)}: { scope: ${JSON.stringify(method.scope)}; params: ${typeOf(method.params)}; result: ${typeOf(method.result)} };`,
  );
}
lines.push("}", "");
const text = lines.join("\n");
if (process.argv.includes("--check")) {
  if (readFileSync(TARGET, "utf8") !== text) {
    console.error("src/wire.ts is not what the schema gives; run `npm run types`");
    process.exit(1);
  }
} else {
  writeFileSync(TARGET, text);
}
