/** Removes funding URLs from package-lock.json, because npm has no option for it. */
import { readFileSync, writeFileSync } from "node:fs";

const FILE = "package-lock.json";
const lock = JSON.parse(readFileSync(FILE, "utf-8"));
for (const installed of Object.values(lock.packages)) delete installed.funding;
writeFileSync(FILE, `${JSON.stringify(lock, null, 2)}\n`);
