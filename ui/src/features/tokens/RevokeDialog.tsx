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
          From now on it lets nobody in. Whatever uses the token <b>{token.name}</b> of {token.user} is
          refused at its next request.
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

/** What revoking it does to whoever revokes it, as far as can be told. */
function useWarning(token: Token): string | null {
  const me = useMe();
  const isMine = token.user === me.data?.user;
  const sessions = useSessions(isMine ? token.user : undefined);
  if (token.purpose === "local") {
    return "The commands on the server's machine use it. A new one is made when the server starts again.";
  }
  if (sessions.data?.some((session) => session.created_with === token.id)) {
    return "It also ends every session that was opened with it, perhaps the one that you use now.";
  }
  if (!isMine || token.purpose !== "session") return null;
  const isOnly = sessions.data?.length === 1 && sessions.data[0]!.id === token.id;
  return isOnly
    ? "This is the session that you use now: you will be signed out."
    : "This may be the session that you use now: you would be signed out.";
}
