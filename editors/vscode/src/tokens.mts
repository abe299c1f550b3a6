/**
 * A thread that splits code into coloured tokens, so that nothing waits for it: with the grammars and themes that are
 * installed in this VS Code, which are files of their extensions, and VS Code's own rules.
 */

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { createJavaScriptRegexEngine } from "@shikijs/engine-javascript";
import { EncodedTokenMetadata, type IGrammar, INITIAL, type IRawGrammar, Registry } from "@shikijs/vscode-textmate";
import { parse } from "jsonc-parser";
import type { Contributions, Question } from "./colors.js";
import type { Tokens } from "./messages.js";

interface Rule {
  scope?: string | string[];
  settings: { foreground?: string; fontStyle?: string };
}

const MAX_LINE_CHARS = 2000;
/** The first line of a language takes long, since its expressions are compiled. */
const MAX_LINE_MS = 20_000;
/** The foreground of text that no rule is about, in the numbering of the library. */
const PLAIN = 1;
/** Themes of VS Code itself, for when the active one is not a file on this machine, or of another form. */
const FALLBACKS = { vs: "light_plus", "vs-dark": "dark_plus", "hc-black": "hc_black", "hc-light": "hc_light" };
/** What the short names in the user's customizations stand for, as in VS Code's `colorThemeData.ts`. */
const GROUPS: Record<string, string[]> = {
  comments: ["comment", "punctuation.definition.comment"],
  strings: ["string", "meta.embedded.assembly"],
  keywords: ["keyword - keyword.operator", "keyword.control", "storage", "storage.type"],
  numbers: ["constant.numeric"],
  types: ["entity.name.type", "entity.name.class", "support.type", "support.class"],
  functions: ["entity.name.function", "support.function"],
  variables: ["variable", "entity.name.variable"],
};

// Data enters here: our own extension starts this thread and asks it.
const { languages, grammars, themes } = workerData as Contributions;
const engine = createJavaScriptRegexEngine({ forgiving: true });
const registry = new Registry({
  onigLib: {
    createOnigScanner: (patterns) => engine.createScanner(patterns),
    createOnigString: (text) => engine.createString(text),
  },
  loadGrammar: (scope) => {
    const file = grammars.findLast(({ scopeName, path }) => scopeName === scope && path.endsWith(".json"));
    return file && (parse(readFileSync(file.path, "utf8")) as IRawGrammar);
  },
  getInjections: (scope) =>
    grammars.flatMap(({ injectTo, scopeName }) => (injectTo?.includes(scope) ? [scopeName] : [])),
});
let themeInForce = "";

parentPort?.on("message", (question: Question) => {
  const plain: Tokens = { styles: [], texts: question.texts.map(() => []) };
  let found = plain;
  try {
    found = tokens(question) ?? plain;
  } catch {
    // A grammar of any extension may be broken; only what is written in its language has no colours then.
  }
  parentPort?.postMessage({ id: question.id, tokens: found });
});

function tokens(question: Question): Tokens | undefined {
  const scope = scopeOf(question);
  const grammar = scope && registry.loadGrammar(scope);
  if (!grammar) return undefined;
  applyTheme(question);
  const colors = registry.getColorMap();
  const styles = new Map<string, number>();
  const style = (metadata: number) => {
    const font = EncodedTokenMetadata.getFontStyle(metadata);
    const key = `${colors[EncodedTokenMetadata.getForeground(metadata)]} ${font}`;
    const known = styles.get(key) ?? styles.size;
    styles.set(key, known);
    return known;
  };
  const texts = question.texts.map((text) => tokensOf(text, grammar, style));
  return {
    styles: [...styles.keys()].map((key) => ({ color: key.split(" ")[0] ?? "", font: Number(key.split(" ")[1]) })),
    texts,
  };
}

function tokensOf(text: string, grammar: IGrammar, style: (metadata: number) => number): number[] {
  const found: number[] = [];
  let [state, offset] = [INITIAL, 0];
  for (const line of text.split("\n")) {
    if (line.length <= MAX_LINE_CHARS) {
      const { tokens, ruleStack } = grammar.tokenizeLine2(line, state, MAX_LINE_MS);
      state = ruleStack;
      for (let n = 0; n < tokens.length; n += 2) {
        const [from = 0, metadata = 0, to = line.length] = tokens.slice(n, n + 3);
        const isPlain =
          EncodedTokenMetadata.getForeground(metadata) === PLAIN && EncodedTokenMetadata.getFontStyle(metadata) < 1;
        if (isPlain || line.slice(from, to).trim() === "") continue;
        const known = style(metadata);
        if (found.at(-1) === known && found.at(-2) === offset + from) found[found.length - 2] = offset + to;
        else found.push(offset + from, offset + to, known);
      }
    }
    offset += line.length + 1;
  }
  return found;
}

function scopeOf({ language, fileName }: Question): string | undefined {
  const ids = language ? idsNamed(language.toLowerCase()) : idsOf(fileName ?? "");
  return grammars.findLast((each) => each.language !== undefined && ids.includes(each.language))?.scopeName;
}

function idsNamed(name: string): string[] {
  const isNamed = [
    (each: Contributions["languages"][number]) => each.id === name,
    (each: Contributions["languages"][number]) => each.aliases?.some((alias) => alias.toLowerCase() === name),
    (each: Contributions["languages"][number]) => each.extensions?.includes(`.${name}`),
  ];
  for (const is of isNamed) {
    const ids = languages.filter(is).map(({ id }) => id);
    if (ids.length > 0) return ids;
  }
  return [];
}

/** The languages of files of this name; of several endings the longest counts, as of `a.d.ts`. */
function idsOf(fileName: string): string[] {
  const named = languages.filter(({ filenames }) => filenames?.includes(fileName));
  if (named.length > 0) return named.map(({ id }) => id);
  for (let dot = fileName.indexOf("."); dot >= 0; dot = fileName.indexOf(".", dot + 1)) {
    const ending = fileName.slice(dot).toLowerCase();
    const found = languages.filter(({ extensions }) => extensions?.some((each) => each.toLowerCase() === ending));
    if (found.length > 0) return found.map(({ id }) => id);
  }
  return [];
}

function applyTheme({ theme, uiTheme, customizations }: Question): void {
  const wanted = JSON.stringify([theme, uiTheme, customizations]);
  if (wanted === themeInForce) return;
  const active = themes.find((each) => each.uiTheme === uiTheme && [each.id, each.label].includes(theme));
  const settings = [...(rulesIn(active?.path) ?? fallback(uiTheme)), ...customRules(JSON.parse(customizations), theme)];
  registry.setTheme({ settings });
  themeInForce = wanted;
}

function fallback(uiTheme: Question["uiTheme"]): readonly Rule[] {
  const file = join("theme-defaults", "themes", `${FALLBACKS[uiTheme]}.json`);
  return rulesIn(themes.find(({ path }) => path.endsWith(file))?.path) ?? [];
}

/** The rules of a theme's file, behind those of the file that it includes; undefined if it has none. */
function rulesIn(path: string | undefined): readonly Rule[] | undefined {
  if (!path?.endsWith("json")) return undefined;
  try {
    const { include, tokenColors } = parse(readFileSync(path, "utf8")) as { include?: string; tokenColors?: Rule[] };
    const rules = [...((include && rulesIn(join(dirname(path), include))) || []), ...(tokenColors ?? [])];
    return rules.length > 0 && rules.every((rule) => typeof rule === "object") ? rules : undefined;
  } catch {
    return undefined;
  }
}

/** The user's own rules: for all themes, then for those that they name, as `[Monokai]` or `[*Dark*]`. */
function customRules(customizations: unknown, theme: string): Rule[] {
  if (typeof customizations !== "object" || customizations === null) return [];
  return Object.entries(customizations).flatMap(([key, value]: [string, unknown]): Rule[] => {
    if (key.startsWith("[")) return namesTheme(key, theme) ? customRules(value, theme) : [];
    if (key === "textMateRules" && Array.isArray(value)) return value as Rule[];
    const scope = GROUPS[key];
    if (!scope) return [];
    return [{ scope, settings: typeof value === "string" ? { foreground: value } : (value as Rule["settings"]) }];
  });
}

function namesTheme(key: string, theme: string): boolean {
  return [...key.matchAll(/\[([^\]]+)\]/g)].some(([, name = ""]) => {
    const [begin = "", ...rest] = name.split("*");
    if (rest.length === 0) return name === theme;
    const end = rest.pop() ?? "";
    return theme.startsWith(begin) && theme.endsWith(end) && rest.every((part) => theme.includes(part));
  });
}
