/** Shows what has changed since the preview, before the run is submitted. */
import { Button, Group, Stack, Text } from "@mantine/core";
import type { Difference } from "../../../api/plans";
import { Differences } from "../../../format/Differences";
import { Dialog } from "../../../shell/Dialog";

interface Props {
  differences: Difference[];
  isSubmitting: boolean;
  onSubmit: () => void;
  onClose: () => void;
}

export function ChangedPlanDialog({ differences, isSubmitting, onSubmit, onClose }: Props) {
  return (
    <Dialog onClose={onClose} title="The plan has changed" size="lg" isBusy={isSubmitting}>
      <Stack>
        <Text size="sm">These values changed after the preview. The run was not submitted.</Text>
        <Differences differences={differences} titles={["Preview", "Now"]} />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose} disabled={isSubmitting} data-autofocus>
            Review
          </Button>
          <Button onClick={onSubmit} loading={isSubmitting}>
            Submit anyway
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
