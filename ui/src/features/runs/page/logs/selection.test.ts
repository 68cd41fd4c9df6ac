import { describe, expect, it } from "vitest";
import { Lines, type Stream } from "./lines";
import { type LogFilter, Selection } from "./selection";

function makeLines(...entries: [Stream, string][]): Lines {
  const lines = new Lines();
  for (const [stream, text] of entries) lines.add({ at: "", stream, cursor: 0, text });
  return lines;
}

function select(lines: Lines, filter: Partial<LogFilter>): Selection {
  const selection = new Selection(lines, { stream: "all", search: "", isOnlyMatches: false, ...filter });
  selection.extend();
  return selection;
}

function shown(selection: Selection): string[] {
  return Array.from({ length: selection.count }, (_, at) => selection.line(at)!.text);
}

const LOG = () =>
  makeLines(
    ["stdout", "epoch 1\n"],
    ["stderr", "Warning: slow\n"],
    ["stdout", "\u001b[31mWARN\u001b[0mING\n"],
    ["platform", "started\n"],
  );

describe("a selection", () => {
  it.each<[string, Partial<LogFilter>, string[], number[]]>([
    ["all lines", {}, ["epoch 1", "Warning: slow", "\u001b[31mWARN\u001b[0mING", "started"], []],
    ["one stream", { stream: "stderr" }, ["Warning: slow"], []],
    [
      "all lines, with hits",
      { search: "warning" },
      ["epoch 1", "Warning: slow", "\u001b[31mWARN\u001b[0mING", "started"],
      [1, 2],
    ],
    [
      "only matches",
      { search: "WARNING", isOnlyMatches: true },
      ["Warning: slow", "\u001b[31mWARN\u001b[0mING"],
      [0, 1],
    ],
    [
      "matches of one stream",
      { stream: "stdout", search: "warn", isOnlyMatches: true },
      ["\u001b[31mWARN\u001b[0mING"],
      [0],
    ],
    [
      "hits of one stream",
      { stream: "stdout", search: "warn" },
      ["epoch 1", "\u001b[31mWARN\u001b[0mING"],
      [1],
    ],
    [
      "all lines if nothing is searched for",
      { isOnlyMatches: true },
      ["epoch 1", "Warning: slow", "\u001b[31mWARN\u001b[0mING", "started"],
      [],
    ],
    ["nothing", { search: "31m", isOnlyMatches: true }, [], []],
  ])("has %s", (_, filter, texts, hits) => {
    const selection = select(LOG(), filter);
    expect(shown(selection)).toEqual(texts);
    expect(selection.hits).toEqual(hits);
  });

  it.each<Partial<LogFilter>>([
    { search: "x" },
    { search: "x", isOnlyMatches: true },
    { stream: "stdout", search: "x" },
    { stream: "stdout" },
    {},
  ])("that is extended equals one that is built at the end: %j", (filter) => {
    const lines = new Lines();
    const growing = select(lines, filter);
    const pieces: [Stream, string][] = [
      ["stdout", "a"],
      ["stderr", "x\n"],
      ["stdout", "x"],
      ["stdout", "\rb"],
      ["stderr", "b"],
      ["stdout", "\nx\n"],
      ["stderr", "x"],
    ];
    for (const [stream, text] of pieces) {
      lines.add({ at: "", stream, cursor: 0, text });
      growing.extend();
      const rebuilt = select(lines, filter);
      expect(shown(growing)).toEqual(shown(rebuilt));
      expect(growing.hits).toEqual(rebuilt.hits);
    }
    expect(lines.items.map(({ text }) => text)).toEqual(["b", "x", "bx", "x"]);
  });

  it("matches its own lines and filter", () => {
    const [lines, filter] = [LOG(), { stream: "all", search: "", isOnlyMatches: false } as LogFilter];
    const selection = new Selection(lines, filter);
    expect(selection.matches(lines, filter)).toBe(true);
    expect(selection.matches(LOG(), filter)).toBe(false);
    expect(selection.matches(lines, { ...filter })).toBe(false);
  });

  it("does not match its lines after the oldest ones were dropped", () => {
    const filter: LogFilter = { stream: "stdout", search: "", isOnlyMatches: false };
    const lines = LOG();
    const selection = new Selection(lines, filter);
    lines.add({ at: "", stream: "stdout", cursor: 0, text: "line\n".repeat(230_000) });
    expect(lines.dropped).toBeGreaterThan(0);
    expect(selection.matches(lines, filter)).toBe(false);
  });
});
