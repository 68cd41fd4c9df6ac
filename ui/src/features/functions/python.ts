/** The words of Python as far as colors need them: no parser, and wrong in places where nobody minds. */

export interface Token {
  text: string;
  kind?: "comment" | "string" | "keyword" | "number";
}

const WORDS =
  "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield";
const STRING =
  /[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)/;
const TOKENS = new RegExp(
  `(?<comment>#.*)|(?<string>${STRING.source})|\\b(?<keyword>${WORDS})\\b|\\b(?<number>\\d[\\w.]*)`,
  "g",
);

export function tokenise(text: string): Token[] {
  const tokens: Token[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    const kind = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined)?.[0];
    if (match.index > end) tokens.push({ text: text.slice(end, match.index) });
    tokens.push({ text: match[0], kind: kind as Token["kind"] });
    end = match.index + match[0].length;
  }
  return [...tokens, { text: text.slice(end) }];
}

/** Tokens line by line; one that spans lines is in each of them. The last line break ends the text. */
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
