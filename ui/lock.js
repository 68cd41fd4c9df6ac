/** Takes the addresses out of the lock: npm writes who wants money for each package, and offers no way to leave it out. */
import { readFileSync, writeFileSync } from "node:fs";

const FILE = "package-lock.json";
const lock = JSON.parse(readFileSync(FILE, "utf-8"));
for (const installed of Object.values(lock.packages)) delete installed.funding;
writeFileSync(FILE, `${JSON.stringify(lock, null, 2)}\n`);
