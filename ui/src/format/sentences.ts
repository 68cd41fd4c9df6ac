/** Messages of the server as sentences. */

/** The text with a capital letter at its beginning and a period at its end. */
export function sentence(text: string): string {
  // Names keep their letters: "project/forest", "main.py", "ada@example.org".
  const begun = /^[\w-]+[./@]\w/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
