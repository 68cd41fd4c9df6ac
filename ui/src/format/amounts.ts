/** Parses Kubernetes quantities and formats numbers. */
const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const AMOUNT = /^([0-9.]+)(?:[eE]([+-]?[0-9]+)|([A-Za-z]*))$/;

/** Converts a Kubernetes quantity to a number of cores or bytes. Returns NaN if the text is not a quantity. */
export function numberOf(amount: string | number): number {
  const match = AMOUNT.exec(String(amount));
  if (!match) return Number.NaN;
  const [, digits, power, suffix = ""] = match;
  if (power) return Number(digits) * 10 ** Number(power);
  const suffixes = suffix.endsWith("i") ? BINARY : DECIMAL;
  if (!suffixes.includes(suffix)) return Number.NaN;
  const step = suffixes === BINARY ? 1024 : 1000;
  return Number(digits) * step ** (suffixes.indexOf(suffix) - suffixes.indexOf(""));
}

/** "1.5 GiB". */
export function showBytes(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(BINARY.length - 1, Math.floor(Math.log(bytes) / Math.log(1024)));
  const unit = power > 0 ? `${BINARY[power]}B` : bytes === 1 ? "byte" : "bytes";
  return `${round(bytes / 1024 ** power)} ${unit}`;
}

/** Formats a number with up to two decimals, or up to one if it is 10 or more. */
export function round(number: number): string {
  return number.toLocaleString("en", { maximumFractionDigits: number < 10 ? 2 : 1 });
}
