// One file for bundlers, and one that a page can load as it is.
import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { minify } from "terser";

const outfile = "dist/index.js";
await build({ entryPoints: ["src/index.ts"], bundle: true, format: "esm", target: "es2022", outfile, logLevel: "warning" });
const compress = { passes: 3, ecma: 2020, keep_fargs: false, pure_getters: true, unsafe_arrows: true };
const { code } = await minify(readFileSync(outfile, "utf8"), { module: true, ecma: 2020, compress });
writeFileSync("dist/index.min.js", code);
