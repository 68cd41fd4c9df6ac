/** Quantities as a number and a unit. The text is sent as typed and never converted. */

export interface Amount {
  number: string;
  /** The suffix of the quantity: "Gi", "m" or empty. */
  unit: string;
}

export interface Unit {
  value: string;
  label: string;
}

export const CORES: Unit[] = [
  { value: "", label: "cores" },
  { value: "m", label: "millicores" },
];
/** Decimal and binary units differ: 1 GB is 1,000,000,000 bytes, 1 GiB is 1,073,741,824 bytes. */
export const BYTES: Unit[] = [
  { value: "M", label: "MB" },
  { value: "G", label: "GB" },
  { value: "Mi", label: "MiB" },
  { value: "Gi", label: "GiB" },
  { value: "Ti", label: "TiB" },
];
const RARE: Unit[] = [
  { value: "", label: "bytes" },
  { value: "k", label: "kB" },
  { value: "T", label: "TB" },
  { value: "P", label: "PB" },
  { value: "Ki", label: "KiB" },
  { value: "Pi", label: "PiB" },
];

/** Splits "64Gi" into 64 and "Gi". Empty text gets the default unit. */
export function splitAmount(text: unknown, defaultUnit: string): Amount {
  if (text === null || text === undefined || text === "") return { number: "", unit: defaultUnit };
  const match = /^([0-9.]+)([A-Za-z%]*)$/.exec(String(text));
  return match ? { number: match[1]!, unit: match[2]! } : { number: String(text), unit: "" };
}

export function joinAmount(amount: Amount): string {
  const number = amount.number.trim();
  return number && number + amount.unit;
}

/** Formats a byte quantity for display: "64Gi" becomes "64 GiB". Returns other text unchanged. */
export function showByteQuantity(text: string | number): string {
  const { number, unit } = splitAmount(text, "");
  if (Number.isNaN(Number(number))) return String(text);
  return `${number} ${unitsFor(BYTES, unit).find(({ value }) => value === unit)!.label}`;
}

/** Returns the units to select from, including the current one. */
export function unitsFor(units: Unit[], current: string): Unit[] {
  if (units.some((unit) => unit.value === current)) return units;
  return [
    ...units,
    RARE.find((unit) => unit.value === current) ?? { value: current, label: current || "as written" },
  ];
}
