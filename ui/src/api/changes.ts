/** Mutations of server data. */
import { type QueryClient, useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { isRunList, refetchRunLists } from "./runLists";

interface Callbacks<Output> {
  onSuccess?: (output: Output) => void;
  onError?: () => void;
  onSettled?: () => void;
}

/**
 * A mutation that invalidates all queries whose key begins with an API path. `onSaved` runs first and can
 * remove queries that would now fail.
 */
export function useChange<Input, Output>(
  mutationFn: (input: Input) => Promise<Output>,
  onSaved?: (output: Output, queries: QueryClient) => void,
) {
  const queries = useQueryClient();
  // The second click of a double click can arrive before React disables the button.
  const isPending = useRef(false);
  const { mutateAsync, ...change } = useMutation({
    mutationFn,
    onSuccess: (output) => {
      onSaved?.(output, queries);
      return Promise.all([
        // Handled separately from other queries, because only the first page of a long list is refetched.
        refetchRunLists(queries),
        queries.invalidateQueries({
          predicate: ({ queryKey }) => String(queryKey[0]).startsWith("/api/v1/") && !isRunList(queryKey),
        }),
      ]);
    },
    // Inputs and outputs can be tokens or secrets, so they must not stay in the cache.
    gcTime: 0,
  });
  /** Sets `error` if the request fails. */
  const mutate = (input: Input, callbacks: Callbacks<Output> = {}) => {
    if (isPending.current) return;
    isPending.current = true;
    // TanStack Query drops callbacks passed to its `mutate` when the component unmounts, and a dialog unmounts with its
    // table row as soon as the list is refetched.
    void mutateAsync(input)
      .then(callbacks.onSuccess, () => callbacks.onError?.())
      .finally(() => {
        isPending.current = false;
        callbacks.onSettled?.();
      });
  };
  return { ...change, mutate };
}
