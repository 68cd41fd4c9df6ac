/** The state of a run's preview while the user edits the form. */
import { useDebouncedValue } from "@mantine/hooks";
import { violationsOf } from "../../../api/problems";
import { type Request, usePreview } from "../../../api/runs";
import { useLast } from "../../../format/useLast";

const DEBOUNCE_MS = 300;

/** Requests a preview after a pause in typing. Keeps the last plan until the next one arrives. */
export function usePreviewState(project: string, request: Request | null) {
  const [settled] = useDebouncedValue(request && JSON.stringify(request), DEBOUNCE_MS);
  const query = usePreview(project, settled ? JSON.parse(settled) : null);
  const plan = useLast(query.error ? undefined : query.data);
  const isSettled = (request && JSON.stringify(request)) === settled;
  return {
    plan,
    // Violations are shown at their fields.
    error: violationsOf(query.error).length > 0 ? null : query.error,
    violations: query.error ? violationsOf(query.error) : (query.data?.violations ?? []),
    isCurrent: isSettled && request !== null && !query.error && !query.isPending && !query.isPlaceholderData,
    /** Whether the request is invalid, so that the plan belongs to an earlier request. */
    isUnknown: request === null || violationsOf(query.error).length > 0,
    retry: () => void query.refetch(),
  };
}

export type PreviewState = ReturnType<typeof usePreviewState>;
