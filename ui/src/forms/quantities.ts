/** Amounts as a number and a unit. What was typed is sent as it was typed: nothing is computed here. */

export interface Amount {
  number: string;
  /** The suffix of the quantity: "Gi", "m", or nothing. */
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
/** Decimal and binary units are told apart: 1 GB is 1,000,000,000 bytes, 1 GiB is 1,073,741,824. */
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

/** "64Gi" is 64 and "Gi". */
export function splitAmount(text: unknown, usual: string): Amount {
  if (text === null || text === undefined || text === "") return { number: "", unit: usual };
  const match = /^([0-9.]+)([A-Za-z%]*)$/.exec(String(text));
  return match ? { number: match[1]!, unit: match[2]! } : { number: String(text), unit: "" };
}

export function joinAmount(amount: Amount): string {
  const number = amount.number.trim();
  return number && number + amount.unit;
}

/** The units to choose from, with the present one even where it is a rare one. */
export function unitsFor(units: Unit[], present: string): Unit[] {
  if (units.some((unit) => unit.value === present)) return units;
  return [
    ...units,
    RARE.find((unit) => unit.value === present) ?? { value: present, label: present || "as written" },
  ];
}
