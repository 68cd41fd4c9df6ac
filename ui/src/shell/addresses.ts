/** Addresses of pages that are called by a name. Names of places may have a "+" in them. */
import { useParams } from "wouter";
import { splitScope } from "../api/places";

export function policyAddress(scope: string): string {
  const { kind, name } = splitScope(scope);
  return `/policies/${kind}/${encodeURIComponent(name)}`;
}

export function secretsAddress(project: string): string {
  return `/secrets/${encodeURIComponent(project)}`;
}

/** The names in the address. The router leaves what has a meaning in addresses, such as "%2B", as it is. */
export function useNames<Name extends string>(): Partial<Record<Name, string>> {
  const params = Object.entries(useParams<Record<string, string | undefined>>());
  return Object.fromEntries(params.map(([key, part]) => [key, part && decode(part)])) as Partial<
    Record<Name, string>
  >;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Somebody typed a "%" of their own.
    return part;
  }
}
