import { Tooltip } from "@mantine/core";
import { NONE } from "../table/columns";
import { showAge, showTime } from "./times";

/** How long ago; when exactly, for whoever looks closer. */
export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return NONE;
  return (
    <Tooltip label={showTime(at)}>
      <time dateTime={at}>{showAge(at)}</time>
    </Tooltip>
  );
}
