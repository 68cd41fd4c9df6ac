/** A simple Python tokenizer for syntax highlighting. It is not a parser, so it colors rare constructs incorrectly. */

export interface Token {
  text: string;
  kind?: "comment" | "string" | "keyword" | "number";
}

const KEYWORDS =
  "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield";
const STRING =
  /[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)/;
const TOKENS = new RegExp(
  `(?<comment>#.*)|(?<string>${STRING.source})|\\b(?<keyword>${KEYWORDS})\\b|\\b(?<number>\\d[\\w.]*)`,
  "g",
);

export function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    const kind = Object.entries(match.groups ?? {}).find(([, group]) => group !== undefined)?.[0];
    if (match.index > end) tokens.push({ text: text.slice(end, match.index) });
    tokens.push({ text: match[0], kind: kind as Token["kind"] });
    end = match.index + match[0].length;
  }
  return [...tokens, { text: text.slice(end) }];
}

/** Splits tokens into lines. A token that spans lines is split, and a trailing line break does not add a line. */
export function splitLines(tokens: Token[]): Token[][] {
  const lines: Token[][] = [[]];
  for (const { text, kind } of tokens) {
    const [first = "", ...others] = text.split("\n");
    if (first) lines.at(-1)!.push({ text: first, kind });
    for (const part of others) lines.push(part ? [{ text: part, kind }] : []);
  }
  if (lines.length > 1 && lines.at(-1)!.length === 0) lines.pop();
  return lines;
}
