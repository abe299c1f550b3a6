// format.mjs [--fix] FOLDER: the Lua files of a folder have the format of its stylua.toml.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Config, formatCode, IndentType, OutputVerification } from "@johnnymorganz/stylua";

const folder = process.argv.at(-1);
const isFixing = process.argv[2] === "--fix";
const wanted = [...readFileSync(join(folder, "stylua.toml"), "utf8").matchAll(/^(\w+) = "?(\w+)"?$/gm)];

for (const name of readdirSync(folder, { recursive: true })) {
  if (!name.endsWith(".lua")) continue;
  const path = join(folder, name);
  const text = readFileSync(path, "utf8");
  const formatted = formatCode(text, config(), undefined, OutputVerification.Full);
  if (formatted === text) continue;
  if (isFixing) writeFileSync(path, formatted);
  else console.error(`${path} would be formatted otherwise; run make fix`);
  process.exitCode ||= isFixing ? 0 : 1;
}

/** A new one for each file: formatting consumes it. */
function config() {
  const made = Config.new();
  for (const [, key, value] of wanted) made[key] = key === "indent_type" ? IndentType[value] : Number(value);
  return made;
}
