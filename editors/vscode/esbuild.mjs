// Three bundles: the extension and its thread for Node, the panel for the browser. `--production` makes them small.
// With `--page` only a fourth one: the panel as the page of `oh-daemon serve`, which goes into the daemon's package.
import { build } from "esbuild";

const production = process.argv.includes("--production");
const common = {
  bundle: true,
  minify: production,
  sourcemap: production ? false : "linked",
  logLevel: "warning",
};
const browser = { ...common, platform: "browser", target: "es2022", format: "iife" };
const page = { ...browser, entryPoints: ["page/main.ts", "page/page.css"], outdir: "../../oh_daemon/frontends/serve/page" };
const extension = () => [
  build({
    ...common,
    entryPoints: ["src/extension.ts", "src/tokens.mts"],
    outdir: "dist",
    platform: "node",
    // Of `jsonc-parser`, what `main` names cannot be bundled.
    mainFields: ["module", "main"],
    target: "node20",
    format: "cjs",
    external: ["vscode"],
  }),
  build({ ...browser, entryPoints: ["webview/main.ts", "webview/panel.css"], outdir: "dist/webview" }),
];
await Promise.all(process.argv.includes("--page") ? [build(page)] : extension());
