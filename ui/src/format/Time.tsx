import { Tooltip } from "@mantine/core";
import { NONE } from "../table/columns";
import { showAge, showTime } from "./times";

/** A relative time, with the absolute time in a tooltip. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return NONE;
  return (
    <Tooltip label={showTime(at)}>
      <time dateTime={at}>{showAge(at)}</time>
    </Tooltip>
  );
}
