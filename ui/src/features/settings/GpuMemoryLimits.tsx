/** Edits the GPU memory limits switch in the platform policy. The rest of the policy stays unchanged. */
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
  const isManaged = read?.managed_by != null;
  // The new value while it is being saved.
  const [pending, setPending] = useState<boolean | null>(null);
  const save = (isOn: boolean) => {
    if (pending !== null) return;
    setPending(isOn);
    const content = { ...read?.content, switches: { ...switches, gpu_memory_limits: isOn } };
    saving.mutate(
      { scope: PLATFORM, original: read, force: false, content },
      {
        onSuccess: () => notify(`GPU memory limits are ${isOn ? "on" : "off"}`),
        onSettled: () => void policy.refetch().then(() => setPending(null)),
      },
    );
  };
  return (
    <Stack gap="sm">
      <Switch
        label="GPU memory limits"
        description="Allow GPU memory limits above the request. When off, such requests are rejected."
        checked={pending ?? switches.gpu_memory_limits === true}
        disabled={!mayEdit || isManaged || !policy.isSuccess}
        onChange={(event) => save(event.currentTarget.checked)}
      />
      {isManaged && (
        <Text size="sm" c="dimmed">
          Managed by {read.managed_by}. Edit it there.
        </Text>
      )}
      <Text size="xs" c="dimmed">
        Part of the platform <PolicyLink />. Clusters, departments and projects can turn it off.
      </Text>
      <ProblemAlert
        error={saving.error ?? policy.error}
        title={isProblem(saving.error, "changed") ? "Someone else changed the policy. Try again." : undefined}
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
