// Fails if the minified client has outgrown what a web page is asked to load.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const MOST = 10 * 1024;
const built = readFileSync(new URL("../dist/index.min.js", import.meta.url));
console.log(`dist/index.min.js: ${built.length} bytes of ${MOST}, ${gzipSync(built).length} with gzip`);
if (built.length > MOST) {
  console.error(`the minified client must have at most ${MOST} bytes`);
  process.exit(1);
}
