/** Joins the words of a command with shell quoting. */

const PLAIN = /^[\w@%+=:,./-]+$/;

export function joinWords(words: string[]): string {
  return words.map(quote).join(" ");
}

function quote(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
