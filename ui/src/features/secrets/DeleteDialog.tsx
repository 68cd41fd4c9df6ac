import { List, Loader, Stack, Text } from "@mantine/core";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { withNotice } from "../../shell/notices";
import { ProblemAlert } from "../../shell/Problem";
import { type Secret, useDeleteSecret, useUsers } from "./requests";

interface Props {
  project: string;
  secret: Secret;
  onClose: () => void;
}

/** A secret can go at any time, because one that leaked must; so what names it is told before. */
export function DeleteDialog({ project, secret, onClose }: Props) {
  const deleting = useDeleteSecret(project);
  return (
    <ConfirmDialog
      title={`Delete ${secret.name}?`}
      submitLabel="Delete"
      change={deleting}
      onClose={onClose}
      onConfirm={() => deleting.mutate(secret, withNotice(`Deleted ${secret.name} of ${project}`, onClose))}
    >
      <Stack gap="sm">
        <Text size="sm">
          New runs of {project} that name it will be refused. Runs that have started keep its value.
        </Text>
        <Users project={project} secret={secret.name} />
      </Stack>
    </ConfirmDialog>
  );
}

function Users({ project, secret }: { project: string; secret: string }) {
  const { users, isPending, error } = useUsers(project, secret);
  if (error) return <ProblemAlert error={error} title="What names it cannot be told" />;
  if (isPending) return <Loader size="xs" aria-label="Looking for what names it" />;
  if (users.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        Nothing that you see names it.
      </Text>
    );
  }
  return (
    <div>
      <Text size="sm" mb={4}>
        Still named by:
      </Text>
      <List size="sm" aria-label="Named by">
        {users.map((user) => (
          <List.Item key={`${user.kind} ${user.name} ${user.scope}`}>
            {user.kind} <b>{user.name}</b>{" "}
            <Text span c="dimmed">
              of {user.scope}
            </Text>
          </List.Item>
        ))}
      </List>
    </div>
  );
}
