/** Parses ANSI colors (SGR sequences) into spans of text. Removes all other control sequences. */

export interface Span {
  text: string;
  /** One of the 16 ANSI colors. The style sheet defines them for light and dark mode. */
  color?: number;
  isBold?: boolean;
  isFaint?: boolean;
  isUnderlined?: boolean;
}

const ESCAPE = "\u001b";
// CSI sequences (colors are those that end with "m"), OSC sequences such as window titles, and single escapes.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters
const SEQUENCE = /\u001b(?:\[([0-9;:]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\^_=>]?)/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: as above
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001a\u001c-\u001f\u007f]/g;

/** Returns the text of a line without control sequences. */
export function strip(text: string): string {
  return (text.includes(ESCAPE) ? text.replace(SEQUENCE, "") : text).replace(CONTROL, "");
}

export function splitColors(text: string): Span[] {
  if (!text.includes(ESCAPE)) return [{ text: strip(text) }];
  const spans: Span[] = [];
  let style: Omit<Span, "text"> = {};
  let from = 0;
  const addSpan = (until: number) => {
    const piece = text.slice(from, until).replace(CONTROL, "");
    if (piece) spans.push({ text: piece, ...style });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    addSpan(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") style = restyle(style, match[1]!);
  }
  addSpan(text.length);
  return spans;
}

function restyle(before: Omit<Span, "text">, codes: string): Omit<Span, "text"> {
  const style = { ...before };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at]!;
    if (code === 0) for (const key of Object.keys(style)) delete style[key as keyof typeof style];
    else if (code === 1) style.isBold = true;
    else if (code === 2) style.isFaint = true;
    else if (code === 4) style.isUnderlined = true;
    else if (code === 22) style.isBold = style.isFaint = false;
    else if (code === 24) style.isUnderlined = false;
    else if (code >= 30 && code <= 37) style.color = code - 30;
    else if (code >= 90 && code <= 97) style.color = code - 82;
    else if (code === 39) delete style.color;
    else if (code === 38 || code === 48) {
      // Only the first 16 of the 256 colors are supported, and no RGB colors.
      const isIndexed = numbers[at + 1] === 5;
      if (code === 38 && isIndexed && numbers[at + 2]! < 16) style.color = numbers[at + 2];
      at += isIndexed ? 2 : 4;
    }
  }
  return style;
}
