import { expect, it } from "vitest";
import { showKind, summarize } from "./kinds";
import type { FunctionRecord } from "./requests";

it.each([
  ["python", { source: "main.py", handler: "main" }, "Python", "main.py:main"],
  ["python", { source: "main.py" }, "Python", "main.py"],
  ["python", { code: "abc" }, "Python", ""],
  ["python", { command: ["echo", "a b"] }, "Command", "echo 'a b'"],
  ["container", { image: "hub/a:1" }, "Container", "hub/a:1"],
  ["container", { image: "hub/a:1", command: ["serve"] }, "Container", "hub/a:1 serve"],
])("labels the kind %s with %j as %s and summarizes it as %j", (kind, content, title, summary) => {
  const item = { kind, content } as FunctionRecord;
  expect(showKind(item)).toBe(title);
  expect(summarize(item)).toBe(summary);
});
