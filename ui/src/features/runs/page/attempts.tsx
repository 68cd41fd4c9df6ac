/** The selected attempt of a run, stored in the URL. */
import { NativeSelect } from "@mantine/core";
import { useSearchParams } from "wouter";
import type { Run } from "../../../api/runs";

/** Returns the selected attempt, or undefined for the tab's default (all attempts or the last one). */
export function useAttempt(run: Run): number | undefined {
  const attempt = Number(useSearchParams()[0].get("attempt"));
  return Number.isInteger(attempt) && attempt >= 1 && attempt <= run.attempt ? attempt : undefined;
}

/** Selects an attempt. Hidden if there is only one. */
export function AttemptPicker({ run, defaultLabel }: { run: Run; defaultLabel: string }) {
  const [, setParams] = useSearchParams();
  const attempt = useAttempt(run);
  if (run.attempt < 2) return null;
  const numbers = Array.from({ length: run.attempt }, (_, index) => index + 1);
  return (
    <NativeSelect
      size="xs"
      aria-label="Attempt"
      value={attempt ?? ""}
      onChange={(event) => {
        const { value } = event.currentTarget;
        setParams(value ? { attempt: value } : {}, { replace: true });
      }}
      data={[
        { value: "", label: defaultLabel },
        ...numbers.map((number) => ({ value: String(number), label: `Attempt ${number}` })),
      ]}
    />
  );
}
