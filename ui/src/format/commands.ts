/** Words of a command as one line, as a shell would read it. */

const PLAIN = /^[\w@%+=:,./-]+$/;

export function joinWords(words: string[]): string {
  return words.map(quote).join(" ");
}

function quote(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
