import { List, Loader, Stack, Text } from "@mantine/core";
import { DeleteDialog } from "../../shell/DeleteDialog";
import { ProblemAlert } from "../../shell/Problem";
import { type Secret, useDeleteSecret, useSecretUsers } from "./requests";

interface Props {
  project: string;
  secret: Secret;
  onClose: () => void;
}

/** Lists what still uses the secret. Deletion is not blocked, because a leak may require immediate deletion. */
export function DeleteSecretDialog({ project, secret, onClose }: Props) {
  const deleting = useDeleteSecret(project);
  return (
    <DeleteDialog
      name={secret.name}
      noticeName={`${secret.name} from ${project}`}
      target={secret}
      deleting={deleting}
      onClose={onClose}
      onDeleted={onClose}
    >
      <Stack gap="sm">
        <Text size="sm">
          New runs in {project} that use it will be rejected. Runs that have already started keep its value.
        </Text>
        <SecretUsers project={project} secret={secret.name} />
      </Stack>
    </DeleteDialog>
  );
}

function SecretUsers({ project, secret }: { project: string; secret: string }) {
  const { users, isPending, error } = useSecretUsers(project, secret);
  if (error) return <ProblemAlert error={error} title="Could not check where the secret is used" />;
  if (isPending) return <Loader size="xs" aria-label="Checking where the secret is used" />;
  if (users.length === 0) {
    return (
      <Text size="sm" c="dimmed">
        Not used by anything you can see.
      </Text>
    );
  }
  return (
    <div>
      <Text size="sm" mb={4}>
        Used by:
      </Text>
      <List size="sm" aria-label="Used by">
        {users.map((user) => (
          <List.Item key={`${user.kind} ${user.name} ${user.scope}`}>
            {user.kind} <b>{user.name}</b>{" "}
            <Text span c="dimmed">
              in {user.scope}
            </Text>
          </List.Item>
        ))}
      </List>
    </div>
  );
}
