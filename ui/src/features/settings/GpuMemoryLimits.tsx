/** One switch of the platform's policy, where administrators look for it. Everything else of the policy stays. */
import { Anchor, Stack, Switch, Text } from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";
import { useMay } from "../../api/currentUser";
import { isProblem } from "../../api/problems";
import { policyAddress } from "../../shell/addresses";
import { notify } from "../../shell/notices";
import { ProblemAlert } from "../../shell/Problem";
import { usePolicy, useSave } from "../policies/requests";

const PLATFORM = "platform";

export function GpuMemoryLimits() {
  const policy = usePolicy(PLATFORM);
  const saving = useSave();
  const mayEdit = useMay()("editor", PLATFORM);
  const read = policy.data ?? null;
  const switches = (read?.content.switches ?? {}) as { gpu_memory_limits?: boolean };
  const isKept = read?.managed_by != null;
  // What was asked for, until it is known what became of it.
  const [wanted, setWanted] = useState<boolean | null>(null);
  const save = (isWanted: boolean) => {
    if (wanted !== null) return;
    setWanted(isWanted);
    const content = { ...read?.content, switches: { ...switches, gpu_memory_limits: isWanted } };
    saving.mutate(
      { scope: PLATFORM, original: read, force: false, content },
      {
        onSuccess: () => notify(`GPU memory limits are ${isWanted ? "on" : "off"} now`),
        onSettled: () => void policy.refetch().then(() => setWanted(null)),
      },
    );
  };
  return (
    <Stack gap="sm">
      <Switch
        label="GPU memory limits"
        description="Lets compute resources, templates and runs set a GPU memory limit above the request: a pod may use more of a shared GPU while it is free. Turned off, asking for that is refused."
        checked={wanted ?? switches.gpu_memory_limits === true}
        disabled={!mayEdit || isKept || !policy.isSuccess}
        onChange={(event) => save(event.currentTarget.checked)}
      />
      {isKept && (
        <Text size="sm" c="dimmed">
          The policy is managed by {read.managed_by}: change it there.
        </Text>
      )}
      <Text size="xs" c="dimmed">
        It is a switch of the platform's <PolicyLink />. Clusters, departments and projects can forbid it for
        themselves.
      </Text>
      <ProblemAlert
        error={saving.error ?? policy.error}
        title={
          isProblem(saving.error, "changed")
            ? "Somebody else changed the policy meanwhile. This is what it says now: try again"
            : undefined
        }
      />
    </Stack>
  );
}

function PolicyLink() {
  return (
    <Anchor component={Link} href={policyAddress(PLATFORM)} fz="inherit" underline="always">
      policy
    </Anchor>
  );
}
