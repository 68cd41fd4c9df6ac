import { useRef } from "react";

/** The last thing that was there: what was told stays to be read while a mistake is mended. */
export function useLast<T>(value: T | undefined): T | undefined {
  const last = useRef(value);
  if (value !== undefined) last.current = value;
  return last.current;
}
