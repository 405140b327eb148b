//! Access tokens.

use crore_core::Name;
use crore_wire::TokenSecret;
use crore_wire::api::tokens::{NewToken, Token as Shown, Tokens};
use crore_wire::units::Moment;

use crate::access::{self, Token};
use crate::{Api, Fault, Grant};

impl From<&Token> for Shown {
    fn from(token: &Token) -> Self {
        Self {
            id: token.id.to_string(),
            name: token.name.to_string(),
            scopes: token.scopes.iter().collect(),
            queues: token.only.queues().iter().map(ToString::to_string).collect(),
            kinds: token.only.kinds().iter().map(ToString::to_string).collect(),
            created_at: Moment(token.created_at),
            expires_at: token.expires_at.map(Moment),
        }
    }
}

impl Api {
    /// All tokens, without their secrets.
    pub async fn list_tokens(&self, grant: &Grant) -> Result<Tokens, Fault> {
        grant.check_unrestricted("tokens")?;
        let tokens = access::list(self.engine()).await?;
        Ok(Tokens { tokens: tokens.iter().map(Into::into).collect() })
    }

    /// Creates a token. Its secret is returned here and never again.
    pub async fn create_token(
        &self,
        grant: &Grant,
        request: &NewToken,
    ) -> Result<(Token, TokenSecret), Fault> {
        grant.check_unrestricted("tokens")?;
        let made = access::create(self.engine(), request).await;
        // Also after an error: the token may have been stored.
        self.access().tokens_changed();
        Ok(made?)
    }

    /// Revokes a token, by its id or its name. Its streams and waiting calls end within two seconds.
    pub async fn delete_token(&self, grant: &Grant, id: &Name) -> Result<Token, Fault> {
        grant.check_unrestricted("tokens")?;
        let removed = access::remove(self.engine(), id.as_str()).await;
        self.access().tokens_changed();
        removed?.ok_or_else(|| Fault::missing(format!("token `{id}`")))
    }
}
