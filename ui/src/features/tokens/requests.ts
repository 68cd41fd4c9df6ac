/** API requests about tokens. */
import { useQuery } from "@tanstack/react-query";
import { useChange } from "../../api/changes";
import { client, type Schemas, unwrap } from "../../api/client";
import { loadPage } from "../../api/lists";

export type Token = Schemas["TokenView"];
export type TokenRequest = Schemas["TokenRequest"];

export const TOKENS = "/api/v1/tokens";

export function useCreateToken() {
  return useChange((token: TokenRequest) => unwrap(client.POST(TOKENS, { body: token })));
}

export function useRevoke() {
  return useChange((token: Token) =>
    unwrap(client.DELETE(`${TOKENS}/{token_id}`, { params: { path: { token_id: token.id } } })),
  );
}

/** The active sessions of a user. One of them may be this page's session, but scripts cannot tell which one. */
export function useSessions(user: string | undefined) {
  return useQuery({
    queryKey: [TOKENS, "sessions", user],
    queryFn: async () => {
      const now = new Date().toISOString();
      const query = new URLSearchParams({
        purpose: "session",
        user: user!,
        expires_at: `>${now}`,
        limit: "100",
      });
      return (await loadPage(TOKENS, query)).items;
    },
    enabled: user !== undefined,
  });
}
