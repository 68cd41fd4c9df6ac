/** What the server says of a request while it is typed. */
import { useDebouncedValue } from "@mantine/hooks";
import { violationsOf } from "../../../api/problems";
import { type Request, usePreview } from "../../../api/runs";
import { useLast } from "../../../format/useLast";

const PAUSE_MS = 300;

/** What would run, once somebody pauses: the last that was told, and whether it still holds. */
export function useLook(project: string, request: Request | null) {
  const [settled] = useDebouncedValue(request && JSON.stringify(request), PAUSE_MS);
  const asked = usePreview(project, settled ? JSON.parse(settled) : null);
  const told = useLast(asked.error ? undefined : asked.data);
  const isSettled = (request && JSON.stringify(request)) === settled;
  return {
    plan: told,
    error: violationsOf(asked.error).length > 0 ? null : asked.error,
    violations: asked.error ? violationsOf(asked.error) : (asked.data?.violations ?? []),
    isCurrent: isSettled && request !== null && !asked.error && !asked.isPending && !asked.isPlaceholderData,
    /** Whether what is asked for cannot even be read: what was told is of something else. */
    isUnknown: request === null || violationsOf(asked.error).length > 0,
    retry: () => void asked.refetch(),
  };
}

export type Look = ReturnType<typeof useLook>;
