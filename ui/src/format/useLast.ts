import { useRef } from "react";

/** The last defined value, so that a result stays visible while the input is invalid. */
export function useLast<T>(value: T | undefined): T | undefined {
  const last = useRef(value);
  if (value !== undefined) last.current = value;
  return last.current;
}
