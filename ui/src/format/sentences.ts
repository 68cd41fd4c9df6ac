/** Formats server messages as sentences. */

/** The text with an initial capital letter and a final period. */
export function sentence(text: string): string {
  // Names are not capitalized: "project/forest", "main.py", "ada@example.org".
  const capitalized = /^[\w-]+[./@]\w/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capitalized) ? capitalized : `${capitalized}.`;
}
