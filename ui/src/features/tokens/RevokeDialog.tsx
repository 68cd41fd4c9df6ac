import { Alert, Stack, Text } from "@mantine/core";
import { useMe } from "../../api/currentUser";
import { ConfirmDialog } from "../../shell/ConfirmDialog";
import { withNotice } from "../../shell/notices";
import { type Token, useRevoke, useSessions } from "./requests";

interface Props {
  token: Token;
  onClose: () => void;
  onRevoked: () => void;
}

export function RevokeDialog({ token, onClose, onRevoked }: Props) {
  const revoking = useRevoke();
  const warning = useWarning(token);
  return (
    <ConfirmDialog
      title={`Revoke ${token.name}?`}
      submitLabel="Revoke"
      change={revoking}
      onClose={onClose}
      onConfirm={() => revoking.mutate(token, withNotice(`Revoked ${token.name}`, onRevoked))}
    >
      <Stack gap="sm">
        <Text size="sm">
          Requests that use {token.user}'s token <b>{token.name}</b> will be rejected from now on.
        </Text>
        {warning && (
          <Alert color="orange" role="note">
            {warning}
          </Alert>
        )}
      </Stack>
    </ConfirmDialog>
  );
}

/** A warning if the user may lose their own access. Scripts cannot tell which session the page uses. */
function useWarning(token: Token): string | null {
  const me = useMe();
  const isMine = token.user === me.data?.user;
  const sessions = useSessions(isMine ? token.user : undefined);
  if (token.purpose === "local") {
    return "Commands on the server machine use this token. The server creates a new one the next time it starts.";
  }
  if (sessions.data?.some((session) => session.created_with === token.id)) {
    return "All sessions opened with this token will also end, possibly including your current one.";
  }
  if (!isMine || token.purpose !== "session") return null;
  const isOnly = sessions.data?.length === 1 && sessions.data[0]!.id === token.id;
  return isOnly
    ? "This is your current session. You will be signed out."
    : "This may be your current session. You may be signed out.";
}
