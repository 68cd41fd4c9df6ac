/** Which try of a run a part of its page is about: the address says it. */
import { NativeSelect } from "@mantine/core";
import { useSearchParams } from "wouter";
import type { Run } from "../../../api/runs";

/** Nothing: all of them, or the last. */
export function useAttempt(run: Run): number | undefined {
  const said = Number(useSearchParams()[0].get("attempt"));
  return Number.isInteger(said) && said >= 1 && said <= run.attempt ? said : undefined;
}

/** Chooses a try, where there is more than one. */
export function AttemptPicker({ run, none }: { run: Run; none: string }) {
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
        { value: "", label: none },
        ...numbers.map((number) => ({ value: String(number), label: `Attempt ${number}` })),
      ]}
    />
  );
}
