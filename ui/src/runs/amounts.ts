/** The amount of memory for retrying a run that ran out of memory. */
import type { Setting } from "../api/plans";
import { type Run, usePlanOf } from "../api/runs";
import { joinAmount, splitAmount } from "../forms/quantities";

/** Returns twice a run's memory per pod, or undefined while the plan is loading. */
export function useMoreMemory(run: Run): string | undefined {
  const plan = usePlanOf(run.id);
  return doubleMemory(plan.data?.settings ?? []);
}

/** Doubles the memory limit, or the request if the run has no limit. */
export function doubleMemory(settings: Setting[]): string | undefined {
  const settingOf = (path: string) => settings.find((setting) => setting.path === path)?.value;
  const values = [settingOf("resources.mem.limits"), settingOf("resources.mem.requests")];
  const amount = values.map((value) => splitAmount(value, "")).find(({ number }) => Number(number) > 0);
  return amount && joinAmount({ ...amount, number: String(2 * Number(amount.number)) });
}
