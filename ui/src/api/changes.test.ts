import { expect, it, vi } from "vitest";
import { callHook } from "../testing/hooks";
import { useChange } from "./changes";

it.each([
  ["onSuccess", async () => "created", ["onSuccess created", "onSettled"]],
  ["onError", () => Promise.reject(new Error("rejected")), ["onError", "onSettled"]],
])("calls %s, then onSettled", async (_, send, expected) => {
  const calls: string[] = [];
  const { mutate } = callHook(() => useChange<void, string>(send));
  mutate(undefined, {
    onSuccess: (output) => calls.push(`onSuccess ${output}`),
    onError: () => calls.push("onError"),
    onSettled: () => calls.push("onSettled"),
  });
  await vi.waitFor(() => expect(calls).toEqual(expected));
});

it("ignores a second call while the first one is pending", async () => {
  const send = vi.fn(() => new Promise<string>(() => undefined));
  const { mutate } = callHook(() => useChange<void, string>(send));
  mutate(undefined);
  mutate(undefined);
  await vi.waitFor(() => expect(send).toHaveBeenCalledTimes(1));
});
