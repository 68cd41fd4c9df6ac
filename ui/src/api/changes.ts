/** Changes of what the server keeps. */
import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { isRunList, readRunLists } from "./runLists";

interface Then<Output> {
  onSuccess?: (output: Output) => void;
  onSettled?: () => void;
}

/**
 * A change, after which all that was read of the server is read again: the keys of those queries begin with its
 * addresses. `onSaved` comes before that, for what must no longer be asked for.
 */
export function useChange<Input, Output>(
  mutationFn: (input: Input) => Promise<Output>,
  onSaved?: (output: Output, queries: QueryClient) => void,
) {
  const queries = useQueryClient();
  // A second click comes before the button is seen to be busy.
  const isUnderWay = useRef(false);
  const { mutateAsync, ...change } = useMutation({
    mutationFn,
    onSuccess: (output) => {
      onSaved?.(output, queries);
      return Promise.all([
        readRunLists(queries),
        queries.invalidateQueries({
          predicate: ({ queryKey }) => String(queryKey[0]).startsWith("/api/v1/") && !isRunList(queryKey),
        }),
      ]);
    },
    // Tokens and values of secrets are among them: none is in the memory of the page any longer than it is looked at.
    gcTime: 0,
  });
  /** What is wrong when it fails is in `error`. */
  const mutate = (input: Input, then: Then<Output> = {}) => {
    if (isUnderWay.current) return;
    isUnderWay.current = true;
    // Not by TanStack's own callbacks: it forgets them with the dialog, whose row is gone once the list is read again.
    void mutateAsync(input)
      .then(then.onSuccess, () => undefined)
      .finally(() => {
        isUnderWay.current = false;
        then.onSettled?.();
      });
  };
  return { ...change, mutate };
}
