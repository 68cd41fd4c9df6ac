import { describe, expect, it } from "vitest";
import { Lines, type Stream } from "./lines";
import { Selection, type Wanted } from "./selecting";

function makeLines(...written: [Stream, string][]): Lines {
  const lines = new Lines();
  for (const [stream, text] of written) lines.add({ at: "", stream, cursor: 0, text });
  return lines;
}

function select(lines: Lines, wanted: Partial<Wanted>): Selection {
  const selection = new Selection(lines, { stream: "all", search: "", isOnlyMatches: false, ...wanted });
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
  it.each<[string, Partial<Wanted>, string[], number[]]>([
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
  ])("has %s", (_, wanted, texts, hits) => {
    const selection = select(LOG(), wanted);
    expect(shown(selection)).toEqual(texts);
    expect(selection.hits).toEqual(hits);
  });

  it.each<Partial<Wanted>>([
    { search: "x" },
    { search: "x", isOnlyMatches: true },
    { stream: "stdout", search: "x" },
    { stream: "stdout" },
    {},
  ])("that grows is the same as one that is made at the end: %j", (wanted) => {
    const lines = new Lines();
    const growing = select(lines, wanted);
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
      const whole = select(lines, wanted);
      expect(shown(growing)).toEqual(shown(whole));
      expect(growing.hits).toEqual(whole.hits);
    }
    expect(lines.kept.map(({ text }) => text)).toEqual(["b", "x", "bx", "x"]);
  });

  it("belongs to its lines and its filter", () => {
    const [lines, wanted] = [LOG(), { stream: "all", search: "", isOnlyMatches: false } as Wanted];
    const selection = new Selection(lines, wanted);
    expect(selection.isOf(lines, wanted)).toBe(true);
    expect(selection.isOf(LOG(), wanted)).toBe(false);
    expect(selection.isOf(lines, { ...wanted })).toBe(false);
  });

  it("does not belong to lines of which the oldest were dropped since", () => {
    const wanted: Wanted = { stream: "stdout", search: "", isOnlyMatches: false };
    const lines = LOG();
    const selection = new Selection(lines, wanted);
    lines.add({ at: "", stream: "stdout", cursor: 0, text: "line\n".repeat(230_000) });
    expect(lines.dropped).toBeGreaterThan(0);
    expect(selection.isOf(lines, wanted)).toBe(false);
  });
});
