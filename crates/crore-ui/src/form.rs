//! Posted forms.

use axum::extract::{FromRequest, Request};
use crore_api::body::collect;
use crore_api::{Fault, Grant};
use crore_core::{Code, Invalid};

use crate::Ui;
use crate::context::form_owner;
use crate::visitor::Visitor;

/// The fields of a posted form whose token belongs to the caller. Other forms are refused.
#[derive(Debug)]
pub(crate) struct PostedForm(Vec<(String, String)>);

impl FromRequest<Ui> for PostedForm {
    type Rejection = Fault;

    async fn from_request(request: Request, ui: &Ui) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let grant = Grant::from_extensions(&parts.extensions)?;
        let visitor = parts.extensions.get::<Visitor>().cloned();
        let visitor = visitor.ok_or_else(|| Fault::missing("this page"))?;
        let bytes = collect(body, ui.api()).await?;
        let form = Self(form_urlencoded::parse(&bytes).into_owned().collect());
        let token = form.get("csrf").unwrap_or_default();
        if !ui.csrf().is_token(&form_owner(&grant, &visitor), token) {
            let why = "the form is out of date: the server was restarted, or another session began; open the page \
                       again and repeat the action";
            return Err(Fault::new(Code::CrossSite, why));
        }
        Ok(form)
    }
}

impl PostedForm {
    /// The value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The trimmed value of a field, unless it is empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty())
    }

    /// The parsed value of a field, unless it is empty.
    pub(crate) fn parsed<T: std::str::FromStr>(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, Invalid> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong = |_| {
            let text = crore_core::code::excerpt(text);
            Invalid::new(Code::Malformed, name, format!("`{text}` is not {expected}"))
        };
        text.parse().map(Some).map_err(wrong)
    }
}
